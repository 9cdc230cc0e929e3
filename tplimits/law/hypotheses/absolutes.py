"""Absolute values where they tell nothing: rewritten before the tail of a ket is judged."""

from __future__ import annotations

import sympy
from sympy import Expr

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.parts import found


def with_single_abs(expr: Expr) -> Expr:
    """|x y| as |x||y|, and |f| as f where f is never negative."""
    swap: dict[Expr, Expr] = {}
    for node in found(expr, sympy.Abs):
        inner = node.args[0]
        # one expression for one function: otherwise a numerator |f| would not be seen to cancel a pole at f
        if bounds(inner)[0] >= 0:
            swap[node] = inner
        elif inner.is_Mul:
            swap[node] = sympy.Mul(*(sympy.Abs(f) for f in inner.args))
    return expr.xreplace(swap) if swap else expr
