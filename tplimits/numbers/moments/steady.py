"""Functions of one variable on arrays, without what cancels beside their poles."""

from __future__ import annotations

from sympy import Expr, Symbol

from tplimits.law.gaussians import independent
from tplimits.numbers.moments.panels import Kinked, kinked
from tplimits.numbers.near_zero import continued
from tplimits.program.parts import remembered


@remembered(512)
def steady(function: Expr, variable: Symbol) -> Kinked:
    """The function, continued at its removable poles, with its kinks."""
    return kinked(continued(function, independent([variable])), variable)
