"""Numbers by their digits, where algebra does not tell whether they are zero."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, S

#: what a division by zero leaves in an expression
NOT_NUMBERS: tuple[Any, ...] = (type(sympy.zoo), type(sympy.nan), type(sympy.oo), type(-sympy.oo))
#: digits to which a number is told from zero
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
