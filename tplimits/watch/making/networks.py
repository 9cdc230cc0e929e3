"""Networks that are trained neuron by neuron: those of finite width, and limits without matrices on samples of kets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.network.loss import error_signal
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar
from tplimits.regimes.training.finite.loss_gradients import LossGradients
from tplimits.regimes.training.finite.networks import Networks
from tplimits.watch.making.drawing import initial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tplimits.program.nodes.execution import Execution
    from tplimits.watch.making.asked import Asked

Array = NDArray[numpy.float64]


class Neurons:
    """One network in training, at a step; width `math.inf` stands for samples of the limit's kets."""

    def __init__(self, asked: Asked, width: float, seed: int) -> None:
        self.asked, self.step = asked, 0
        self.limit = math.isinf(width)
        n = asked.particles if self.limit else int(width)
        self.networks = Networks(asked.recipe, n, 1, numpy.random.default_rng([seed, n]), None, asked.ratios)
        self.networks.held = {name: w[None] for name, w in initial(asked, n, seed, self.limit).items()}

    # -- training -----------------------------------------------------------------------------

    def advance(self, steps: int) -> None:
        """Some steps of training."""
        for _ in range(steps):
            rows = self.asked.rows(self.step)
            error = self.asked.error if rows is None else self.asked.error.batch(rows)
            run, f = self._run(rows)
            χ = error_signal(error)(f[0], self.step)[None]
            with numpy.errstate(all="ignore"):  # what overflows is refused by name
                self.networks._step(self.step, run, χ)
            self.step += 1

    def _run(self, rows: Array | None, whole: bool = True) -> tuple[Execution, Array]:
        data = {name: x if rows is None else x[rows] for name, x in self.asked.X.items()}
        run = self.networks.run(data, whole=whole)
        f = self.networks.outputs(run)
        if not numpy.isfinite(f).all():
            raise EvaluationError(f"the outputs overflow at step {self.step}; give a smaller lr.")
        return run, f

    # -- looking ------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Array]:
        """As they stand in the program; in a limit, samples of kets."""
        return {name: w[0] for name, w in self.networks.held.items()}

    def outputs(self) -> Array:
        """f on all inputs."""
        found: Array = self._run(None, whole=False)[1][0]
        return found

    def gradients(self) -> tuple[Array, dict[str, Array]]:
        """f and the gradients of the loss on all inputs, in coordinates that do not grow with the width."""
        run, f = self._run(None)
        χ = error_signal(self.asked.error)(f[0], self.step)[None]
        with numpy.errstate(all="ignore"):
            found = LossGradients(self.networks.sampler, run, self.asked.recipe.a_out, χ)
            gradients = {name: found.of(name)[0] * self._unit(name, run) for name in self.asked.trained}
        return f[0], gradients

    def _unit(self, name: str, run: Execution) -> float:
        """√n for vectors, whose gradients are of order 1/n in each of n entries; 1 for the others."""
        s = self.asked.net[self.asked.net.initial_names[name]]
        return 1.0 if isinstance(s, (InitialScalar, InitialMatrix)) else math.sqrt(run.width[s.over])

    # -- leaving and coming back --------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """All that is needed to go on."""
        found = {f"held {name}": w[0] for name, w in self.networks.held.items()}
        for name, states in self.networks.states.items():
            found |= {f"state {i} {name}": s for i, s in enumerate(states)}
        return {"step": numpy.array(self.step), **found}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Back to what `state` gave."""
        self.step = int(state["step"])
        self.networks.held = {name: numpy.array(state[f"held {name}"])[None] for name in self.networks.held}
        self.networks.states = {}
        for name in self.asked.trained:
            found: list[Array] = []
            while f"state {len(found)} {name}" in state:
                found.append(numpy.array(state[f"state {len(found)} {name}"]))
            if found or self.step:
                self.networks.states[name] = tuple(found)
