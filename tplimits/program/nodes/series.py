"""A function with its Taylor series near a zero, where doubles lose its digits."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.polynomial import polynomial
from sympy import Expr

from tplimits.program.nodes.functions import Real


class near(Real):
    """near(t, F, δ, c₀, c₁, …): the function F, read off Σ c_k t^k for |t| < δ."""

    def definition(self) -> Expr:
        """The function without the series."""
        return self.args[1]

    def _sympystr(self, printer: Any) -> str:
        return f"({printer._print(self.definition())})"


def on_arrays(t: Any, function: Any, radius: float, *coefficients: float) -> Any:
    """Its values.

    >>> on_arrays(numpy.array([1e-9, 1.0]), numpy.array([8e-17, 2.0]), 0.5, 0.0, 0.0, 1.0).tolist()
    [1e-18, 2.0]
    """
    inside = numpy.abs(t) < radius
    return numpy.where(inside, polynomial.polyval(numpy.where(inside, t, 0.0), coefficients), function)
