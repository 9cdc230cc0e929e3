"""Which numbers of a program are rounded: decimal constants are doubles near them, arrays and given constants data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import ArrayEntry, constant_symbol, entries

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: conditions that decimal numbers or data decide are judged to this accuracy
DATA_TOLERANCE = 1e-12
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


class Rounded:
    """What in a program is known to the accuracy of doubles alone: what decimal numbers, arrays or constants enter."""

    def __init__(self, program: Program) -> None:
        self._constants = frozenset(map(constant_symbol, program.constants))
        self._positions: set[int] = set()
        for position, s in enumerate(program):
            if not self._positions.isdisjoint(s.operands) or any(map(self._holds, s.expressions)):
                self._positions.add(position)

    def tolerance(self, expr: Expr) -> float:
        """What counts as zero in a part of a body: 1e-12 where it holds such a number, or reads what one enters."""
        rounded = self._holds(expr) or any(e.source in self._positions for e in entries(expr))
        return DATA_TOLERANCE if rounded else 0.0

    def _holds(self, expr: Expr) -> bool:
        """Asked once of every part of a program: walked through, since nothing is found twice."""
        if isinstance(expr, ArrayEntry) or expr in self._constants:
            return True
        return any(map(self._holds, expr.args)) if expr.args else bool(expr.is_Rational and is_rounded(expr))
