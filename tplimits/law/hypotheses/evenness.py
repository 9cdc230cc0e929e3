"""Signs and absolute values where they tell nothing: rewritten before the tail of a ket is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.vanishing import almost_never_zero
from tplimits.program.parts import found, holds

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness


def without_even_signs(expr: Expr, gaussians: Randomness) -> Expr:
    """sign(f)² as 1, sin²(sign f) as sin²(1), where f is almost never zero."""
    swap: dict[Expr, Expr] = {}
    for power in found(expr, sympy.Pow) if holds(expr, sympy.sign) else ():
        for node in found(power.base, sympy.sign) if power.exp.is_even else ():
            up, down = (power.xreplace({node: side}) for side in (S.One, S.NegativeOne))
            if up == down and almost_never_zero(node.args[0], gaussians):
                swap[power] = up
    return expr.xreplace(swap) if swap else expr


def with_single_abs(expr: Expr) -> Expr:
    """|x y| as |x||y|, and |f| as f where f is never negative."""
    swap: dict[Expr, Expr] = {}
    for node in found(expr, sympy.Abs):
        inner = node.args[0]
        if bounds(inner)[0] >= 0:
            swap[node] = inner
        elif inner.is_Mul:
            swap[node] = sympy.Mul(*(sympy.Abs(f) for f in inner.args))
    return expr.xreplace(swap) if swap else expr
