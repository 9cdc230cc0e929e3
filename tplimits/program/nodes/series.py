"""A function with its Taylor series near a zero, where doubles lose its digits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy
from sympy import Expr, Symbol

from tplimits.program.nodes.functions import Real

#: what is nothing beside the largest term: of coefficients that vary, and of numbers, whose place is found beforehand
_NOTHING, _NO_DIGIT = 1e-13, 1e-16


class near(Real):
    """near(t, F, δ, c₀, c₁, …): the function F, read off Σ c_k t^k for |t| < δ."""

    def definition(self) -> Expr:
        """The function without the series."""
        return self.args[1]

    def _eval_derivative(self, symbol: Symbol) -> Expr:
        """Of the function and of its series, which is one term shorter."""
        t, function, radius, *c = self.args
        slope = t.diff(symbol)
        series = [a.diff(symbol) + (k + 1) * b * slope for k, (a, b) in enumerate(pairwise(c))]
        return near(t, function.diff(symbol), radius, *series)

    def _sympystr(self, printer: Any) -> str:
        return f"({printer._print(self.definition())})"


def on_arrays(t: Any, function: Any, radius: float, *coefficients: Any) -> Any:
    """Its values.

    A series ends after a few terms whatever its radius: it stands only where its last two, even and odd, are nothing.

    >>> on_arrays(numpy.array([1e-9, 1.0]), numpy.array([8e-17, 2.0]), 0.5, 0.0, 0.0, 1.0).tolist()
    [1e-18, 2.0]
    """
    if any(map(numpy.ndim, coefficients)):
        terms = [c * t**k for k, c in enumerate(coefficients)]
        largest = numpy.maximum.reduce([abs(a) for a in numpy.broadcast_arrays(*terms)])
        inside = numpy.abs(t) < radius
        inside = inside & (numpy.maximum(abs(terms[-1]), abs(terms[-2])) <= _NOTHING * largest)
    else:
        inside = numpy.abs(t) < _settled(radius, [abs(float(c)) for c in coefficients])
    t, value = numpy.where(inside, t, 0.0), coefficients[-1]
    for c in coefficients[-2::-1]:
        value = c + value * t
    return numpy.where(inside, value, function)


def _settled(radius: float, sizes: Sequence[float]) -> float:
    """How far from zero the last two terms of a series are no digit of its first."""
    first = next((k for k, c in enumerate(sizes) if c), len(sizes))
    last = [k for k in range(max(first + 1, len(sizes) - 2), len(sizes)) if sizes[k]]
    return min([radius, *((_NO_DIGIT * sizes[first] / sizes[k]) ** (1 / (k - first)) for k in last)])
