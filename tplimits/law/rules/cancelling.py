"""Sums of numbers that cancel, by their digits, where algebra does not tell that they are zero."""

from __future__ import annotations

import sympy
from sympy import Expr

from tplimits.program.nodes.digits import value_of
from tplimits.program.parts import found


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
