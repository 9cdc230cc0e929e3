"""Functions of one variable on arrays, without what cancels beside their poles."""

from __future__ import annotations

from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.law.gaussians import independent
from tplimits.numbers.moments.kinks import Kinked, kinked, reach
from tplimits.numbers.near_zero import continued
from tplimits.program.parts import remembered


def steady(function: Expr, variable: Symbol, variances: Array) -> Kinked:
    """The function, continued at its removable poles, with its kinks where laws of these variances see them."""
    return _steady(function, variable, reach(variances))


@remembered(512)
def _steady(function: Expr, variable: Symbol, searched: float) -> Kinked:
    return kinked(continued(function, independent([variable])), variable, searched)
