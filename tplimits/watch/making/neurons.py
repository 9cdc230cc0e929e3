"""Networks that are trained neuron by neuron: those of finite width, and limits without matrices on samples of kets.

Without matrices the maximal update parametrization moves every neuron by n ∂L/∂w, whatever the width, and averages over
neurons are averages over samples.  So n samples of the initial kets train as a network of n neurons does that starts
at them, and what is drawn better than at random, by Sobol points, is nearer to the limit than any network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import threadpoolctl
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.network.loss import error_signal
from tplimits.program.nodes.kinds import InitialVector
from tplimits.regimes.training.finite.loss_gradients import LossGradients
from tplimits.regimes.training.finite.networks import Networks
from tplimits.watch.making.drawing import initial
from tplimits.watch.making.sharpness import sharpness
from tplimits.watch.making.signal import rows_at

if TYPE_CHECKING:
    from tplimits.program.nodes.execution import Execution
    from tplimits.watch.making.asked import Asked

Array = NDArray[numpy.float64]


class Neurons:
    """One network in training, at a step; width `math.inf` stands for samples of the limit's kets."""

    in_one_go: ClassVar[bool] = False

    def __init__(self, asked: Asked, width: float, seed: int) -> None:
        self.asked, self.step = asked, 0
        self.limit = math.isinf(width)
        n = asked.neurons(width, seed)
        rng = numpy.random.default_rng(0)  # parameters are drawn here, by seed and name
        self.networks = Networks(asked.recipe, n, 1, rng, None, asked.ratios)
        drawn = initial(asked, n, seed, asked.given_to(width, seed), self.limit)
        self.networks.held = {name: w[None] for name, w in drawn.items()}

    # -- training -----------------------------------------------------------------------------

    def advance(self, step: int) -> None:
        """Go on to a step."""
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            while self.step < step:
                self._advance()

    def _advance(self) -> None:
        asked = self.asked
        rows = rows_at(asked.error, asked.batches, self.step, asked.count)
        run, f = self._run(rows)
        χ = error_signal(asked.error if rows is None else asked.error.batch(rows))(f, self.step)
        with numpy.errstate(all="ignore"):  # what overflows is refused by name
            self.networks._step(self.step, run, χ[None])
        self.step += 1

    def _run(
        self, rows: Array | None = None, whole: bool = True, held: Mapping[str, Array] | None = None
    ) -> tuple[Execution, Array]:
        data = {name: x if rows is None else x[rows] for name, x in self.asked.X.items()}
        run = self.networks.run(data, whole, held)
        return run, self._finite(self.networks.outputs(run)[0])

    def _finite(self, f: Array) -> Array:
        if not numpy.isfinite(f).all():
            raise EvaluationError(f"the outputs overflow at step {self.step}: training diverges. Give a smaller lr.")
        return f

    # -- looking ------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Array]:
        """As they stand in the program; in a limit, samples of kets."""
        held = {name: w[0] for name, w in self.networks.held.items()}
        return {name: self._thinned(name, w) for name, w in held.items()} if self.limit else held

    def _thinned(self, name: str, w: Array) -> Array:
        s = self.asked.net[self.asked.net.initial_names[name]]
        return w[..., : self.asked.samples_of(s.over)] if isinstance(s, InitialVector) else w

    def outputs(self) -> Array:
        """f on all inputs."""
        return self._run(whole=False)[1]

    def on_probes(self) -> Array | None:
        """f on the probes by all samples, of which some are kept."""
        if not self.limit:
            return None
        return self._finite(self.networks.outputs(self.networks.run(self.asked.probes, whole=False))[0])

    def values(self) -> dict[str, Array]:
        """None: they follow from parameters."""
        return {}

    def norms(self) -> dict[str, float]:
        """Norms of gradients in coordinates in which they are of order 1 at all widths, and the sharpness."""
        units = self._units()
        found = {f"gradient {n}": float(numpy.linalg.norm(g)) * units[n] for n, g in self._gradients().items()}
        return found | ({"sharpness": self._sharpness()} if self.asked.detail.sharpness else {})

    def _gradients(self, held: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """∂L/∂W of the loss on all inputs, at these parameters or those of now."""
        run, f = self._run(held=held)
        χ = error_signal(self.asked.error)(f, self.step)
        with numpy.errstate(all="ignore"):
            found = LossGradients(self.networks.sampler, run, self.asked.recipe.a_out, χ[None])
            return {name: found.of(name)[0] for name in self.asked.trained}

    def _units(self) -> dict[str, float]:
        """√n₀ for vectors, whose gradients are of order 1/n in each of n entries; 1 for matrices and scalars."""
        of_vectors = math.sqrt(self.asked.readout_width(self.networks.n))
        net = self.asked.net
        return {
            name: of_vectors if isinstance(net[net.initial_names[name]], InitialVector) else 1.0
            for name in self.asked.trained
        }

    def _sharpness(self) -> float:
        held = {name: w[0] for name, w in self.networks.held.items()}
        steps = {name: self.asked.step_size(name, self.networks.n) for name in self.asked.trained}
        others = {name: w[None] for name, w in held.items() if name not in steps}
        return sharpness(
            lambda w: self._gradients({**others, **{name: x[None] for name, x in w.items()}}),
            {name: held[name] for name in steps},
            steps,
            f"at step {self.step}",
        )

    def finish(self) -> None:
        """Nothing is left to judge."""

    # -- leaving and coming back --------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """All that is needed to go on."""
        found = {f"w/{name}": w[0] for name, w in self.networks.held.items()}
        for name, states in self.networks.states.items():
            found |= {f"{i}/{name}": s for i, s in enumerate(states)}
        return {"step": numpy.array(self.step), **found}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Back to what `state` gave."""
        self.step = int(state["step"])
        held = {name: _shaped(state[f"w/{name}"], w[0])[None] for name, w in self.networks.held.items()}
        self.networks.held, self.networks.states = held, {}
        for name, stepper in self.asked.recipe.steppers.items() if self.step else ():
            like = stepper.start(held[name].shape)
            self.networks.states[name] = tuple(_shaped(state[f"{i}/{name}"], s) for i, s in enumerate(like))


def _shaped(array: Any, like: Array) -> Array:
    """An array of the file that has to stand for another."""
    found = numpy.array(array, dtype=numpy.float64)
    if found.shape != like.shape:
        raise ValueError(f"shape {found.shape} in place of {like.shape}")
    return found
