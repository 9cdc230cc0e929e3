"""Numbers by their digits: which are zero where algebra does not tell, and which are known to doubles alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, S, Symbol

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

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
        value = expr.evalf(digits, subs=dict(known) if known else None, maxn=most)
        if not value.is_Float or value.is_comparable:
            return value
        # 0.e+372 is what is left of a hundred digits, not yet nothing
        if value._mpf_[2] < -digits * _BITS:
            return S.Zero
    return value


#: a denominator with a larger power of two is that of a decimal number
_EXACT = 1 << 20
#: nobody writes larger whole numbers: they are what roots and quotients make of decimal numbers
_WRITTEN = 1 << 40


def is_rounded(number: sympy.Rational) -> bool:
    """Whether a rational was made from a decimal number that no double is.

    >>> is_rounded(sympy.Rational(0.1) / 3), is_rounded(sympy.Rational(0.75)), is_rounded(sympy.Rational(1, 3))
    (True, False, False)
    >>> is_rounded(1 / sympy.Rational(0.1))
    True
    """
    return bool(number.q & -number.q > _EXACT or max(abs(number.p), number.q) > _WRITTEN)


def has_rounded(program: Program) -> bool:
    """Whether something in a program is known to the accuracy of doubles alone."""
    if program.arrays or program.constants:
        return True
    return any(_holds_rounded(expr) for s in program for expr in s.expressions)


def _holds_rounded(expr: Expr) -> bool:
    """Asked once of every part of a program: walked through, since nothing is found twice."""
    return any(map(_holds_rounded, expr.args)) if expr.args else expr.is_Rational and is_rounded(expr)
