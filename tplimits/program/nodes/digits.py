"""Numbers by their digits, where algebra does not tell whether they are zero."""

from __future__ import annotations

import sympy
from sympy import Expr, S

from tplimits.program.parts import found

#: digits to which the sign of a number is told
_DIGITS = 40


def value_of(number: Expr, digits: int = _DIGITS) -> Expr | None:
    """A real number to so many digits, exactly 0 where it has none; None for what is no number.

    SymPy gives log 2 + log 3 − log 6 as 0.e-172, a positive number that is not comparable.

    >>> from sympy import I, log
    >>> value_of(log(2) + log(3) - log(6)), value_of(log(2) + log(3), 5), value_of(I)
    (0, 1.7918, None)
    """
    value = number.evalf(digits)
    if value.is_Float and not value.is_comparable:
        return S.Zero
    return value if value.is_comparable else None


def cancelled(expr: Expr) -> Expr:
    """Every sum without its numbers where these cancel, as log 2 + log 3 − log 6 does.

    >>> from sympy import log, sqrt, Symbol
    >>> cancelled(sqrt(Symbol("x") + log(2) + log(3) - log(6)))
    sqrt(x)
    """
    swap = {}
    for total in found(expr, sympy.Add):
        numbers = [a for a in total.args if a.is_number]
        if len(numbers) > 1 and value_of(sympy.Add(*numbers)) == 0:
            swap[total] = sympy.Add(*(a for a in total.args if not a.is_number))
    return cancelled(expr.xreplace(swap)) if swap else expr
