"""A network of width n trained with its true matrices, in any abcd-parametrization, by any entrywise optimizer.

A parameter of the program is W = n^(−a) w with w_0 ~ N(0, n^(−2b)) (times the law of the program), the output

    f = n₀^(−a_out) Σ_α x_α + shift,                    g_t = Σ_(inputs, outputs) χ_t ∂f/∂w_t,
    w_(t+1) = (1 − λ) w_t − η n^(−c) Q_t(n^d g_0, …, n^d g_t),    χ_t = ε_t(f_t).

∂f/∂W are the gradients of `tplimits.program.network.backward` times n₀^(−a_out), for scalars times n₀^(1 − a_out).

Where widths differ, n is that of the readout, n₀, but for what sums over the columns of a matrix: entries have the
variance n₀^(1 − 2a − 2b)/columns at the start, and W moves by η n₀^(1 − a − c)/columns · Q_t(n₀^(d − a) ∂f/∂W, …).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.network.data import inputs_of
from tplimits.program.network.loss import error_signal
from tplimits.program.network.parameters import parameters, places_of_neurons
from tplimits.program.network.schedules import at_step, moving, parted
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import real_array, seed_number, whole_from
from tplimits.program.nodes.kinds import Initial, InitialMatrix
from tplimits.regimes.kernels.finite.products import Products
from tplimits.regimes.training.finite.compiled import Compiled, compiled, is_worth
from tplimits.regimes.training.finite.loss_gradients import LossGradients
from tplimits.regimes.training.finite.recipe import Recipe, recipe
from tplimits.regimes.training.finite.updates import Updates, updates

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.table import Parametrization


@dataclass(frozen=True)
class Trained:
    """Networks of one width over time: `f` (draws, steps + 1, inputs, *outputs), and the named values that were kept.

    A kept vector has shape (draws, steps + 1, *axes, width), one that depends on data (…, inputs, *axes, width).
    """

    n: int
    f: Array
    kept: Mapping[str, Array] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.f.shape[1] - 1


def train(
    net: Program,
    parametrization: Parametrization,
    optimizer: Any,
    X: Any,
    error: Any,
    lr: Any,
    steps: int,
    n: int,
    seed: int = 0,
    weight_decay: Any = 0.0,
    *,
    draws: int = 1,
    keep: Iterable[str] | Mapping[str, int] = (),
    only: Iterable[str] | None = None,
    given: Mapping[str, Any] | None = None,
    ratios: Mapping[str, float] | None = None,
    start: Any = None,
) -> Trained:
    """Train `draws` networks of width n and record their outputs, step by step.

    optimizer, weight_decay: one for all parameters, or by name.  lr: a number, a function of the step t = 0, 1, …, or
    either of these by name.  error: ε_t as error(f) or error(f, t).  only: names of parameters that are trained, the
    others stay.  keep: names of values to record, or names for positions in the total program.  given: initial
    parameters and constants by name, in the program's scale (W, not w), constants also as functions of the step.
    start: what outputs are shifted to, f_t − f^dec_t + start_t, which the error sees too, with f^dec the outputs of
    the same network at rate 0 (f_0, as long as nothing decays); a number, outputs (inputs, *outputs), or a path
    of them (steps + 1, inputs, *outputs).

    >>> import tplimits as tp
    >>> @tp.network
    ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.sum(U * ξ, over="d")
    >>> run = train(linear, tp.MUP, tp.SGD(), [[1.0]], lambda f: f - 1, lr=0.5, steps=1, n=4096)
    >>> bool(abs(run.f[0, 1, 0] - 1) < 0.1)  # the mean of (U + v/2)(v + U/2) is 1
    True

    Raises EvaluationError for a negative rate, a decay outside of [0, 1), unknown names, and outputs that overflow.
    """
    net, known = moving(net, given or {})
    schedules, rest = parted(net, known)
    asked = recipe(net, parametrization, optimizer, lr, weight_decay, only, schedules)
    rng = numpy.random.default_rng(seed_number(seed, EvaluationError))
    width, many = whole_from("n", n, 1, EvaluationError), whole_from("draws", draws, 1, EvaluationError)
    networks = Networks(asked, width, many, rng, rest, ratios)
    kept = keep if isinstance(keep, Mapping) else {name: net.position(name) for name in keep}
    times = whole_from("steps", steps, 0, EvaluationError)
    return networks.trained(inputs_of(net, X, "X"), error_signal(error), times, kept, start)


class _HeldExecution(Execution):
    """An execution whose parameters are arrays that are held elsewhere, one for each draw."""

    held: Mapping[str, Array]

    def _initial(self, s: Initial) -> Array:
        return self.held[s.name] if s.name in self.held else super()._initial(s)


class Networks:
    """The parameters of some networks of one width and the states of their optimizers."""

    def __init__(
        self,
        asked: Recipe,
        n: int,
        draws: int,
        rng: numpy.random.Generator,
        given: Mapping[str, Any] | None = None,
        ratios: Mapping[str, float] | None = None,
    ) -> None:
        self.recipe, self.net, self.sampler = asked, asked.net, asked.sampler
        self.n, self.draws, self.rng = n, draws, rng
        self.given, self.ratios = dict(given or {}), ratios
        self.updates: Updates | None = None
        self.held: dict[str, Array] = {}

    def trained(
        self,
        data: Mapping[str, Array],
        error: Callable[[Array, int], Array],
        steps: int,
        kept: Mapping[str, int] | None = None,
        start: Any = None,
    ) -> Trained:
        """Outputs and kept values of all times; error as `error_signal` gives it, start as in `train`."""
        outputs: list[Array] = []
        kept = kept or {}
        found: dict[str, list[Array]] = {name: [] for name in kept}
        untrained = None if start is None else _Untrained(self, data, start, steps)
        fast = None if kept else self._compiled(data, steps)
        for t in range(steps + 1):
            if fast is None:
                run = self.run(data, whole=t < steps or bool(kept), t=t)
            f = self.outputs(run) if fast is None else fast.outputs(t)
            if untrained is not None:
                # before the error sees them: a shift afterwards would leave the training that of other outputs
                f = f - untrained.excess(t, f)
            if not numpy.isfinite(f).all():
                what = "are not finite before training, as where 0 divides"
                what = f"overflow at step {t}; give a smaller lr" if t else what
                raise EvaluationError(f"the outputs of `{self.net.name}` at width {self.n} {what}.")
            outputs.append(f)
            for name, position in kept.items():
                found[name].append(numpy.array(run.arrays[position]))
            if t < steps:
                # draw by draw: error functions are of one network
                χ = numpy.stack([error(one, t) for one in f])
                with numpy.errstate(all="ignore"):
                    if fast is None:
                        self._step(t, run, χ)
                    else:
                        fast.step(t, χ)
        stacked = {name: numpy.stack(values, axis=1) for name, values in found.items()}
        return Trained(self.n, numpy.stack(outputs, axis=1), stacked)

    def _compiled(self, data: Mapping[str, Array], steps: int) -> Compiled | None:
        """The same networks in compiled code, where that is worth it."""
        given = dict(self.given)
        # no instruction is run: it draws the parameters, so that both ways have the same ones
        run = self.run(data, whole=False, count=0)
        return compiled(self.recipe, data, run.width, self.held, given) if is_worth(self.held, steps) else None

    def run(
        self,
        data: Mapping[str, Array],
        whole: bool = True,
        held: Mapping[str, Array] | None = None,
        count: int | None = None,
        t: int = 0,
    ) -> Execution:
        """The total program, or the forward pass alone, with the parameters that are held; the first run draws them.

        `count` stops after so many instructions; `t` is the step whose constants are taken.
        """
        given = {**self.given, **at_step(self.recipe.schedules, t), **data}
        run = _HeldExecution(self.sampler.program, self.n, self.draws, self.rng, self.ratios, given)
        run.held = self.held if held is None else held
        if not self.held:
            self._draw(run)
            # initial values have gone into `held`, which training moves: given once more they would undo it
            self.given = {k: v for k, v in self.given.items() if k not in self.net.initial_names}
        return run.run_some(len(self.sampler.program if whole else self.net) if count is None else count)

    def _draw(self, run: Execution) -> None:
        """Initial parameters: those of the program times n₀^(½ − a − b) for matrices, n₀^(−a − b) for others."""
        n0, places = float(run.width[self.net.output_width]), places_of_neurons(self.net)
        for name in parameters(self.net):
            s = self.net[self.net.initial_names[name]]
            assert isinstance(s, Initial)
            e = self.recipe.exponents[name]
            natural = 0.5 if isinstance(s, InitialMatrix) else 0.0
            # by the laws of the program, whatever the parametrization
            drawn = run._initial(s)
            rests = name in run.given or name in places
            scale = 1.0 if rests else n0 ** (natural - float(e.a + e.b))
            # what is given is not ours to train
            fresh = drawn if drawn.flags.owndata and drawn.flags.writeable and name not in run.given else drawn.copy()
            self.held[name] = numpy.multiply(fresh, scale, out=fresh) if scale != 1 else fresh

    def outputs(self, run: Execution) -> Array:
        """f of all draws: (draws, inputs, *outputs)."""
        products = Products(self.sampler, run, slice(None), slice(None), lambda: run)
        x, shift = products.readout_values()
        with numpy.errstate(all="ignore"):  # what overflows is refused by name
            f: Array = x.sum(axis=-1) * float(products.n0) ** -self.recipe.a_out + shift
        return f.reshape(*f.shape[:2], *products.shape)

    def _step(self, t: int, run: Execution, χ: Array) -> None:
        """Move every trained parameter by the gradients of one execution."""
        gradients = LossGradients(self.sampler, run, self.recipe.a_out, χ)
        if self.updates is None:
            self.updates = updates(self.recipe, run.width)
        self.updates.step(t, gradients.of, self.held)


class _Untrained:
    """The same networks at rate 0, whose weights only decay: what their outputs exceed a given path by."""

    def __init__(self, networks: Networks, data: Mapping[str, Array], start: Any, steps: int) -> None:
        self.networks, self.data, self.steps = networks, data, steps
        self.start = real_array("start", start)
        self.outputs: Any = None
        self.initial: dict[str, Array] = {}

    def excess(self, t: int, f: Array) -> Array:
        """f^dec_t − start_t; `f` are the outputs of the trained networks, which at t = 0 are f^dec."""
        if t == 0:
            self.outputs = f
            self._refuse_other_shapes(f.shape[1:])
            if self.networks.recipe.drifting:
                # before the first step, which moves what is held
                self.initial = {name: w.copy() for name, w in self.networks.held.items()}
        elif self.networks.recipe.drifting:
            for name, decay in self.networks.recipe.decays.items():
                # as the update of the step before has it: decay first, then what is learned
                self.initial[name] *= 1 - decay(t - 1)
            self.outputs = self.networks.outputs(self.networks.run(self.data, whole=False, held=self.initial, t=t))
        along = self.start.ndim == f.ndim
        return self.outputs - (self.start[t] if along else self.start)

    def _refuse_other_shapes(self, one: tuple[int, ...]) -> None:
        if self.start.shape not in ((), one, (self.steps + 1, *one)):
            raise EvaluationError(
                f"start has shape {self.start.shape}; outputs at one time have {one}, a path of them "
                f"{(self.steps + 1, *one)}."
            )
