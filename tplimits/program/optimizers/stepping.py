"""The recursion of an optimizer on NumPy arrays, written from the same expressions as its formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray

from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS, Array

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer

_HEADS = {head.__name__: function for head, function in ARRAY_FUNCTIONS.items()}

#: the gradient of a step, and the number of the step, 0 for the first
G = sympy.Symbol("g", real=True)
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
    written: Callable[..., Any] = sympy.lambdify(
        arguments, [_in_floats(v) for v in values], [_HEADS, "numpy"], cse=True
    )
    return written


def _in_floats(expr: sympy.Expr) -> sympy.Expr:
    """The expression with rationals as floating point numbers, but exponents of ½ and whole numbers as they are."""
    exact = {r: sympy.Float(r, 17) for r in expr.atoms(sympy.Rational) if not r.is_Integer and r not in _HALVES}
    return expr.xreplace(exact)


_HALVES = (sympy.S.Half, -sympy.S.Half)
