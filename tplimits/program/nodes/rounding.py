"""Which numbers of a program are rounded: decimal constants are doubles near them, arrays and given constants data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

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
