"""The recursion of an optimizer on NumPy arrays, written from the same expressions as its formulas.

Normalised, clipped and factored updates take arrays (draws, *axes, …) of one parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy
import sympy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.program.nodes.entries import variable
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS

if TYPE_CHECKING:
    from tplimits.program.optimizers.joint import Adafactor
    from tplimits.program.optimizers.recursion import Optimizer

_HEADS = {head.__name__: function for head, function in ARRAY_FUNCTIONS.items()}

#: the gradient of a step, and the number of the step, 0 for the first
G = variable("g")
TIME = sympy.Symbol("t", integer=True, nonnegative=True)


class Stepper:
    """An optimizer on arrays of any shape, in float64 or in the type of the gradients.

    >>> from tplimits.program.optimizers.linear import SGD
    >>> stepper = SGD(momentum=0.5).stepper()
    >>> states = stepper.start((2,))
    >>> for t, g in enumerate([numpy.array([1.0, 0.0]), numpy.array([0.0, 1.0])]):
    ...     states, q = stepper.step(t, states, g)
    >>> q.tolist()
    [0.5, 1.0]
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        arguments = (TIME, G, *(s.symbol for s in optimizer.states))
        self._updates = _compiled(arguments, tuple(s.update for s in optimizer.states))
        self._output = _compiled(arguments, (optimizer.output,))

    def start(self, shape: Sequence[int]) -> tuple[Array, ...]:
        """The states before the first step, for an array of entries."""
        return tuple(numpy.full(tuple(shape), float(s.initial)) for s in self.optimizer.states)

    def step(self, t: int, states: tuple[Array, ...], g: NDArray) -> tuple[tuple[Array, ...], Array]:
        """The states after step t, and Q_t; `t` counts from 0."""
        with numpy.errstate(all="ignore"):
            states = tuple(self._updates(float(t), g, *states))
            (output,) = self._output(float(t), g, *states)
        return states, numpy.broadcast_to(output, g.shape)


# every parameter has a stepper of its own, in every replicate of a run
@lru_cache(maxsize=64)
def _compiled(arguments: tuple[sympy.Symbol, ...], values: tuple[sympy.Expr, ...]) -> Callable[..., Any]:
    return sympy.lambdify(arguments, [_in_floats(v) for v in values], [_HEADS, "numpy"], cse=True)


def _in_floats(expr: sympy.Expr) -> sympy.Expr:
    """The expression with rationals as floating point numbers, but exponents of ½ and whole numbers as they are."""
    exact = {r: sympy.Float(r, 17) for r in expr.atoms(sympy.Rational) if not r.is_Integer and r not in _HALVES}
    return expr.xreplace(exact)


_HALVES = (sympy.S.Half, -sympy.S.Half)


#: e: a norm over all entries grows like n^e
NORM_POWER = {"matrix": sympy.S.One, "vector": sympy.S.Half, "readout": sympy.S.Half, "scalar": sympy.S.Zero}


@dataclass(frozen=True)
class Whole:
    """What a step needs to know of a parameter: its kind, the width n₀ of the readout, and the weights w."""

    kind: str
    n: float
    w: Array


class Divided(Protocol):
    """An optimizer whose updates, or whose optimizer's, are divided by a norm."""

    @property
    def optimizer(self) -> Optimizer: ...

    @property
    def divides_by(self) -> str | None: ...

    def divisor(self, norm: Any, unit: float = 1.0) -> Any:
        """What the update is divided by."""


class NormStepper:
    """Updates divided by a norm."""

    def __init__(self, optimizer: Divided) -> None:
        self.optimizer, self.inner = optimizer, optimizer.optimizer.stepper()

    def start(self, shape: Sequence[int]) -> tuple[Array, ...]:
        """The states before the first step."""
        return self.inner.start(shape)

    def step(self, t: int, states: tuple[Array, ...], g: Array, whole: Whole) -> tuple[tuple[Array, ...], Array]:
        """The states after step t, and the update; where the norm is 0 there is none."""
        states, q = self.inner.step(t, states, g)
        norm = _norm(whole.w if self.optimizer.divides_by == "weight" else q, whole.kind)
        ν = self.optimizer.divisor(norm, float(whole.n) ** float(NORM_POWER[whole.kind]))
        return states, numpy.divide(q, ν, out=numpy.zeros_like(q), where=ν > 0)


class FactoredStepper:
    """Adafactor: states are means over columns and over rows for matrices, and one array for others."""

    def __init__(self, optimizer: Adafactor) -> None:
        self.optimizer = optimizer

    def start(self, shape: Sequence[int]) -> tuple[Array, ...]:
        """No states: the first step makes them."""
        return ()

    def step(self, t: int, states: tuple[Array, ...], g: Array, whole: Whole) -> tuple[tuple[Array, ...], Array]:
        """The states after step t, and the update."""
        ρ, eps = float(self.optimizer.decay), float(self.optimizer.eps)
        square = g * g
        seen: tuple[Array, ...]
        if whole.kind == "matrix":
            seen = (square.mean(axis=-1, keepdims=True), square.mean(axis=-2, keepdims=True))
        else:
            seen = (square,)
        old = states or tuple(numpy.zeros_like(s) for s in seen)
        states = tuple(ρ * s + (1 - ρ) * new for s, new in zip(old, seen, strict=True))
        v = states[0]
        with numpy.errstate(all="ignore"):
            if whole.kind == "matrix":
                v = v * states[1] / v.mean(axis=-2, keepdims=True)
            q = g / numpy.sqrt(v / (1 - ρ ** (t + 1)) + eps**2)
        return states, numpy.where(g == 0, 0.0, q)


def _norm(values: Array, kind: str) -> Array:
    """The root of the sum of squares: over rows and columns of each matrix, over everything but draws of others."""
    axes = (-2, -1) if kind == "matrix" else tuple(range(1, values.ndim))
    if not axes:
        return numpy.abs(values)
    return numpy.sqrt((values * values).sum(axis=axes, keepdims=True))
