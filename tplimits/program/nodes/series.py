"""A function with its Taylor series near a zero, where doubles lose its digits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy
from sympy import Expr, Symbol

from tplimits.program.nodes.functions import Real

#: beside the largest term
_NOTHING = 1e-13


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

    Coefficients that are functions of other variables have a radius of their own: then the series stands where its last
    two terms, even and odd, are nothing.

    >>> on_arrays(numpy.array([1e-9, 1.0]), numpy.array([8e-17, 2.0]), 0.5, 0.0, 0.0, 1.0).tolist()
    [1e-18, 2.0]
    """
    inside = numpy.abs(t) < radius
    terms = [c * t**k for k, c in enumerate(coefficients)] if any(map(numpy.ndim, coefficients)) else []
    if terms:
        largest = numpy.maximum.reduce([abs(a) for a in numpy.broadcast_arrays(*terms)])
        inside = inside & (numpy.maximum(abs(terms[-1]), abs(terms[-2])) <= _NOTHING * largest)
    t, value = numpy.where(inside, t, 0.0), coefficients[-1]
    for c in coefficients[-2::-1]:
        value = c + value * t
    return numpy.where(inside, value, function)
