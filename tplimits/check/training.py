"""A network of width n trained with its true matrices, in any abcd-parametrization, by any entrywise optimizer.

A parameter of the program is W = n^(−a) w with w_0 ~ N(0, n^(−2b)) (times the law of the program), the output

    f = n₀^(−a_out) Σ_α x_α + shift,                    g_t = Σ_(inputs, outputs) χ_t ∂f/∂w_t,
    w_(t+1) = (1 − λ) w_t − η n^(−c) Q_t(n^d g_0, …, n^d g_t),    χ_t = ε_t(f_t).

∂f/∂W are the gradients of `tplimits.program.backward` times n₀^(−a_out), for scalars times n₀^(1 − a_out).

Where widths differ, n is that of the readout, n₀, but for what sums over the columns of a matrix: entries have the
variance n₀^(1 − 2a − 2b)/columns at the start, and W moves by η n₀^(1 − a − c)/columns · Q_t(n₀^(d − a) ∂f/∂W, …).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.check.gradients import GradientSampler
from tplimits.check.loss_gradients import LossGradients
from tplimits.check.products import Products
from tplimits.errors import EvaluationError
from tplimits.program.data import inputs_of
from tplimits.program.given import finite_number, seed_number, whole_from
from tplimits.program.loss import error_signal
from tplimits.program.network import parameters
from tplimits.program.nodes import InitialMatrix, InitialScalar, InitialVector
from tplimits.program.optimizers.joint_stepping import Whole
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.roles import roles
from tplimits.program.parametrization.table import Parametrization
from tplimits.program.program import Program
from tplimits.program.run import Execution

Array = NDArray[numpy.float64]


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
    weight_decay: float = 0.0,
    *,
    draws: int = 1,
    keep: Iterable[str] | Mapping[str, int] = (),
    only: Iterable[str] | None = None,
    given: Mapping[str, Any] | None = None,
    ratios: Mapping[str, float] | None = None,
    subtract_initial: bool = False,
) -> Trained:
    """Train `draws` networks of width n and record their outputs, step by step.

    optimizer: one for all parameters, or by name.  lr: a number, a function of the step t = 0, 1, …, or either of
    these by name.  error: ε_t as error(f) or error(f, t).  only: names of parameters that are trained, the others
    stay.  keep: names of values to record, or names for positions in the total program.  given: initial parameters and
    constants by name, in the program's scale (W, not w).  subtract_initial: f_0 is subtracted from all outputs, also
    those that the error sees.

    >>> import tplimits as tp
    >>> @tp.network
    ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.sum(U * ξ, over="d")
    >>> run = train(linear, tp.MUP, tp.SGD(), [[1.0]], lambda f: f - 1, lr=0.5, steps=1, n=4096)
    >>> bool(abs(run.f[0, 1, 0] - 1) < 0.1)  # the mean of (U + v/2)(v + U/2) is 1
    True

    Raises EvaluationError for a negative rate, a decay outside of [0, 1), unknown names, and outputs that overflow.
    """
    networks = _Networks(net, parametrization, optimizer, lr, weight_decay, n, draws, seed, only, given, ratios)
    kept = keep if isinstance(keep, Mapping) else {name: net.position(name) for name in keep}
    return networks.trained(
        X, error_signal(error), whole_from("steps", steps, 0, EvaluationError), kept, subtract_initial
    )


class _HeldExecution(Execution):
    """An execution whose parameters are arrays that are held elsewhere, one for each draw."""

    held: Mapping[str, Array]

    def _initial(self, s: InitialMatrix | InitialVector | InitialScalar) -> Array:
        return self.held[s.name] if s.name in self.held else super()._initial(s)


class _Networks:
    """The parameters of some networks of one width and the states of their optimizers."""

    def __init__(
        self,
        net: Program,
        parametrization: Parametrization,
        optimizer: Any,
        lr: Any,
        weight_decay: float,
        n: int,
        draws: int,
        seed: int,
        only: Iterable[str] | None,
        given: Mapping[str, Any] | None,
        ratios: Mapping[str, float] | None,
    ) -> None:
        self.net, self.parametrization = net, parametrization
        self.n = whole_from("n", n, 1, EvaluationError)
        self.draws = whole_from("draws", draws, 1, EvaluationError)
        self.rng = numpy.random.default_rng(seed_number(seed, EvaluationError))
        self.given, self.ratios = dict(given or {}), ratios
        self.sampler = GradientSampler(net, None if only is None else tuple(only))
        self.exponents = parametrization.of(net)
        if parametrization.symbols:
            raise EvaluationError(f"{parametrization} has symbols; .substituted({{…}}) gives them numbers.")
        self.decay = finite_number("weight_decay", weight_decay, EvaluationError)
        if not 0 <= self.decay < 1:
            raise EvaluationError(f"weight_decay={weight_decay!r}: give a number, 0 or more and below 1.")
        trained = self.sampler.trained
        self.kinds = roles(net).kinds
        self.optimizers = {name: _optimizer_of(optimizer, name) for name in trained}
        self.steppers = {name: chosen.stepper() for name, chosen in self.optimizers.items()}
        self.rates = {name: _rate(lr, name) for name in trained}
        self.states: dict[str, tuple[Array, ...]] = {}
        self.held: dict[str, Array] = {}

    @cached_property
    def a_out(self) -> float:
        return float(self.parametrization.a_out)

    def trained(
        self, X: Any, error: Callable[[Array, int], Array], steps: int, kept: Mapping[str, int], subtract: bool
    ) -> Trained:
        data = inputs_of(self.net, X, "X")
        outputs: list[Array] = []
        found: dict[str, list[Array]] = {name: [] for name in kept}
        start: Any = 0.0
        for t in range(steps + 1):
            run = self._run(data)
            f = self._outputs(run)
            if subtract:
                start = f if t == 0 else start
                f = f - start
            if not numpy.isfinite(f).all():
                raise EvaluationError(f"the outputs of `{self.net.name}` at width {self.n} overflow at step {t}.")
            outputs.append(f)
            for name, position in kept.items():
                found[name].append(numpy.array(run.arrays[position]))
            if t < steps:
                with numpy.errstate(all="ignore"):
                    self._step(t, run, numpy.stack([error(one, t) for one in f]))
        stacked = {name: numpy.stack(values, axis=1) for name, values in found.items()}
        return Trained(self.n, numpy.stack(outputs, axis=1), stacked)

    # -- forward ------------------------------------------------------------------------------

    def _run(self, data: Mapping[str, Array]) -> Execution:
        """The total program with the parameters that are held; the first run draws them."""
        run = _HeldExecution(self.sampler.program, self.n, self.draws, self.rng, self.ratios, {**self.given, **data})
        run.held = self.held
        if not self.held:
            self._draw(run)
            self.given = {k: v for k, v in self.given.items() if k not in self.net.initial_names}
        return run.run()

    def _draw(self, run: Execution) -> None:
        """Initial parameters: those of the program times n₀^(½ − a − b) for matrices, n₀^(−a − b) for others."""
        n0 = self._readout_width(run)
        for name in parameters(self.net):
            s = self.net[self.net.initial_names[name]]
            assert isinstance(s, (InitialMatrix, InitialVector, InitialScalar))
            e = self.exponents[name]
            natural = 0.5 if isinstance(s, InitialMatrix) else 0.0
            drawn = run._initial(s)
            if name not in run.given:
                drawn = drawn * n0 ** (natural - float(e.a + e.b))
            self.held[name] = numpy.array(drawn)

    def _outputs(self, run: Execution) -> Array:
        """f of all draws: (draws, inputs, *outputs)."""
        products = Products(self.sampler, run, slice(None), slice(None), lambda: run)
        x, shift = products.readout_values()
        f: Array = x.sum(axis=-1) * float(products.n0) ** -self.a_out + shift
        return f.reshape(*f.shape[:2], *products.shape)

    # -- backward -----------------------------------------------------------------------------

    def _step(self, t: int, run: Execution, χ: Array) -> None:
        """Move every trained parameter by the gradients of one execution."""
        gradients = LossGradients(self.sampler, run, self.a_out, χ)
        n0 = self._readout_width(run)
        for name, stepper in self.steppers.items():
            e = self.exponents[name]
            g = gradients.of(name)
            if name not in self.states:
                self.states[name] = stepper.start(g.shape)
            g *= n0 ** float(e.d - e.a)
            w = self.held[name]
            whole = Whole(self.kinds[name], n0, w * n0 ** float(e.a))
            more = () if self.optimizers[name].is_entrywise else (whole,)
            self.states[name], q = stepper.step(t, self.states[name], g, *more)
            if self.decay:
                w *= 1 - self.decay
            w -= self.rates[name](t) * n0 ** -float(e.c + e.a) * self._more_columns(name, run) * q

    def _readout_width(self, run: Execution) -> float:
        """n₀."""
        readout = self.net[self.net.returns[0]]
        return float(run.width[readout.width or "n"])

    def _more_columns(self, name: str, run: Execution) -> float:
        """n₀/columns of a matrix, 1 for what is no matrix."""
        s = self.net[self.net.initial_names[name]]
        return self._readout_width(run) / run.width[s.columns] if isinstance(s, InitialMatrix) else 1.0


def _optimizer_of(optimizer: Any, name: str) -> Optimizer:
    """The optimizer of one parameter."""
    found = optimizer.get(name) if isinstance(optimizer, Mapping) else optimizer
    if not isinstance(found, Optimizer):
        where = f" for `{name}`" if isinstance(optimizer, Mapping) else ""
        raise EvaluationError(f"optimizer={found!r}{where}: give an optimizer such as tp.Adam(), or one by parameter.")
    return found


def _rate(lr: Any, name: str) -> Callable[[int], float]:
    """The learning rate of one parameter as a function of the step."""
    if isinstance(lr, Mapping):
        if name not in lr:
            raise EvaluationError(f"lr={lr!r}: there is no rate for `{name}`.")
        lr = lr[name]
    if callable(lr):
        return lambda t: _positive(lr(t), f"lr({t})")
    rate = _positive(lr, "lr")
    return lambda t: rate


def _positive(value: Any, what: str) -> float:
    number = finite_number(what, value, EvaluationError)
    if number < 0:
        raise EvaluationError(f"{what}={value!r}: a learning rate is 0 or more.")
    return number
