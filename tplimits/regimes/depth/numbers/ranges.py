"""Between which numbers functions of scalars lie, sums over axes among them: shares of a softmax between 0 and 1."""

from __future__ import annotations

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes.entries import AxisSum, entries, free_indices
from tplimits.regimes.depth.algebra.products import axis_of


def limits(expr: Expr, state: int | None) -> tuple[Expr, Expr]:
    """Lower and upper bounds of a function of scalars, `state` what is none of them."""
    low, high = bounds(expr)
    if high < sympy.oo and low > -sympy.oo:
        return low, high
    if expr.is_Pow and expr.exp.is_negative:
        least = floor(expr.base, state)
        return (S.Zero, least**expr.exp) if least is not None and least.is_number else (low, high)
    if expr.is_Mul:
        found = S.One, S.One
        for one in (limits(a, state) for a in expr.args):
            if not (one[0] > -sympy.oo and one[1] < sympy.oo):
                return low, high
            corners = [a * b for a in found for b in one]
            found = min(corners), max(corners)
        return found
    return low, high


def floor(divisor: Expr, state: int | None) -> Expr | None:
    """Something positive without scalars that a divisor stays above: of a softmax, 1 beside e^difference; or None."""
    if isinstance(divisor, AxisSum) and never_negative(divisor):
        places = (i for i in free_indices(divisor) if axis_of(i) == divisor.axis)
        own = (divisor.summand.xreplace({divisor.bound: i}) for i in places)
        return next((one for one in own if one.is_positive and all(e.source == state for e in entries(one))), None)
    if divisor.is_Add and never_negative(divisor):
        return next((least for a in divisor.args if (least := floor(a, state)) is not None), None)
    return least if (least := bounds(divisor)[0]) > 0 else None


def never_negative(expr: Expr) -> bool:
    """Whether bounds say so, of sums over axes those of a term."""
    if isinstance(expr, AxisSum):
        return never_negative(expr.summand)
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        return all(map(never_negative, expr.args))
    return bool(bounds(expr)[0] >= 0)
