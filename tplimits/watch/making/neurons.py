"""Networks that are trained neuron by neuron: those of finite width, and limits without matrices on samples of kets.

Without matrices the maximal update parametrization moves every neuron by n ∂L/∂w, whatever the width, and averages over
neurons are averages over samples: n samples of the initial kets train as a network of n neurons that starts at them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from numpy.typing import NDArray

from tplimits.numbers.threads import one_thread
from tplimits.program.network.losses import Loss
from tplimits.program.nodes.kinds import InitialVector
from tplimits.sampling.corners import has_kink
from tplimits.watch.making.sharpness import sharpness

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked

Array = NDArray[numpy.float64]


class Neurons:
    """One network in training, at a step; width `math.inf` stands for samples of the limit's kets."""

    in_one_go: ClassVar[bool] = False

    def __init__(self, asked: Asked, width: float, seed: int) -> None:
        self.asked, self.limit, self.n = asked, math.isinf(width), asked.neurons(width, seed)
        neurons = {"particles" if self.limit else "width": self.n}
        given = {**asked.given_to(width, seed), **asked.recipe.schedules}
        trainer = asked.limit_trainer if self.limit else asked.trainer
        self._seen: tuple[int, Array, dict[str, Array]] | None = None
        self.run = trainer.start(asked.X, seed=seed, parameters=given, ratios=asked.ratios, **neurons)
        self._threads = self.run.multiplies_matrices

    def advance(self, step: int) -> None:
        """Go on to a step."""
        with one_thread() if self._threads else nullcontext():
            self.run.advance(step - self.run.step)

    # -- looking ------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Array]:
        """As they stand in the program; in a limit, samples of kets."""
        return {name: self._thinned(name, w) for name, w in self.run.parameters.items()}

    def _thinned(self, name: str, w: Array) -> Array:
        s = self.asked.net[self.asked.net.initial_names[name]]
        return w[..., : self.asked.samples_of(s.over)] if self.limit and isinstance(s, InitialVector) else w

    def outputs(self) -> Array:
        """f on all inputs."""
        return self._looked()[0] if self.asked.detail.gradients else self.run.outputs()

    def _looked(self) -> tuple[Array, dict[str, Array]]:
        """Outputs and gradients on all inputs, found together: it halves what a frame costs."""
        if self._seen is None or self._seen[0] != self.run.step:
            self._seen = (self.run.step, *self.run.outputs_and_gradients())
        return self._seen[1:]

    def on_probes(self) -> Array | None:
        """f on the probes by all samples, of which some are kept."""
        return self.run.outputs(self.asked.probes) if self.limit else None

    def values(self) -> dict[str, Array]:
        """None: they follow from parameters."""
        return {}

    def norms(self) -> dict[str, float]:
        """Norms of gradients where plain gradient descent has one rate, √p ‖∂L/∂W‖, and the sharpness there."""
        found: dict[str, float] = {}
        if self.asked.detail.gradients:
            gradients = self._looked()[1]
            for name, p in self._speeds.items():
                found[f"gradient {name}"] = math.sqrt(p * float(numpy.vdot(gradients[name], gradients[name])))
        return found | ({"sharpness": self._sharpness()} if self.asked.detail.sharpness else {})

    @cached_property
    def _speeds(self) -> dict[str, float]:
        return {name: self.asked.speed(name, self.n) for name in self.asked.trained}

    def _sharpness(self) -> float:
        here = self.run.state()

        def gradients(parameters: Mapping[str, Array]) -> Mapping[str, Array]:
            self.run.restore({**here, **{f"parameter {name}": w for name, w in parameters.items()}})
            return self.run.gradients()

        jumps = has_kink(self.asked.net) or not isinstance(
            self.asked.error, Loss
        )  # error signals of users may have any
        try:
            held = {name: here[f"parameter {name}"] for name in self._speeds}
            return sharpness(gradients, held, self._speeds, f"at step {self.run.step}", jumps)
        finally:
            self.run.restore(here)

    def finish(self) -> None:
        """Nothing is left to judge."""

    # -- leaving and coming back --------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """All that is needed to go on."""
        return self.run.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Back to what `state` gave."""
        self.run.restore(state)
