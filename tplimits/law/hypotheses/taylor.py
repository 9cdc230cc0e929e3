"""How fast a smooth function of one variable leaves zero: 1 − cos t like t², exp(t) − 1 like t.

The order is the first derivative at 0 that does not vanish, for functions that are analytic there: F(t) = O(t^k) near
0 means that F(f)/f^k has no pole where f vanishes.
"""

from __future__ import annotations

import sympy
from sympy import Expr, Symbol

from tplimits.law.hypotheses.entire import ENTIRE
from tplimits.program.nodes.digits import value_of
from tplimits.program.parts import remembered

#: so many derivatives are looked at
_MOST = 6
#: digits to which a derivative is told from zero, and what then counts as zero
_DIGITS, _NOTHING = 30, 1e-20


@remembered(1 << 12)
def order_at_zero(expr: Expr, variable: Symbol) -> int | None:
    """The k with F(t) ~ c t^k at t = 0, c ≠ 0; None where F is not seen to be analytic, or k is too large."""
    if not expr.free_symbols <= {variable} or not is_analytic(expr, variable):
        return None
    derivative = expr
    for k in range(_MOST + 1):
        value = value_of(derivative.xreplace({variable: sympy.S.Zero}), _DIGITS)
        if value is None:
            return None
        if abs(value) > _NOTHING:
            return k
        derivative = derivative.diff(variable)
    return None


def is_analytic(expr: Expr, variable: Symbol) -> bool:
    """Whether an expression is seen to be analytic in a variable at zero, whatever else stands in it."""
    if not expr.has(variable) or expr.is_Symbol:
        return True
    # b^t is exp(t log b): only where b > 0, which is not asked here
    if isinstance(expr, sympy.Pow) and expr.exp.has(variable):
        return False
    whole = isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp.is_positive
    if isinstance(expr, (sympy.log, sympy.Pow)) and not whole:
        # logarithms and roots are analytic about a positive value
        start = expr.args[0].xreplace({variable: sympy.S.Zero})
        return bool(start.is_positive) and is_analytic(expr.args[0], variable)
    return isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow, *ENTIRE)) and all(
        is_analytic(a, variable) for a in expr.args
    )
