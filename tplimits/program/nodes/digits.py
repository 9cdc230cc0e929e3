"""Numbers by their digits, where algebra does not tell whether they are zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
from sympy import Expr, S, Symbol

#: what a division by zero leaves in an expression
NOT_NUMBERS: tuple[Any, ...] = (type(sympy.zoo), type(sympy.nan), type(sympy.oo), type(-sympy.oo))
#: digits to which a number is told from zero
_DIGITS = 40
#: digits that are carried along, until so many are left; bits of a digit
_MOST, _BITS = (100, 800, 6400), 4


def value_of(number: Expr, digits: int = _DIGITS) -> Expr | None:
    """A real number to so many digits, exactly 0 where it has none; None for what is no number.

    SymPy gives log 2 + log 3 − log 6 as 0.e-172, a positive number that is not comparable.

    >>> from sympy import I, log
    >>> value_of(log(2) + log(3) - log(6)), value_of(log(2) + log(3), 5), value_of(I)
    (0, 1.7918, None)
    """
    value = in_digits(number, digits)
    return value if value.is_comparable else None


def in_digits(expr: Expr, digits: int, known: Mapping[Symbol, Expr] | None = None) -> Expr:
    """An expression with its numbers to so many digits, also where large ones cancel; exactly 0 where none are left.

    Numbers for symbols are taken as exact.  Put into the expression, decimals would be calculated with at once, in
    their own digits.

    >>> from sympy import erfc, exp
    >>> in_digits(exp(1250) * (1 + erfc(30)) - exp(1250), 5)
    1.8929e+150
    """
    value = expr
    for most in _MOST:
        try:
            value = expr.evalf(digits, subs=dict(known) if known else None, maxn=most)
        except MemoryError:  # of erf(√2·10⁶) SymPy wants e^(10¹²) to all digits
            return S.NaN
        if not value.is_Float or value.is_comparable:
            return value
        # 0.e+372 is what is left of a hundred digits, not yet nothing
        if value._mpf_[2] < -digits * _BITS:
            return S.Zero
    return value
