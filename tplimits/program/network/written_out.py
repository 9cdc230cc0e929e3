"""Sums over a finite axis of vectors that are not normal, term by term.

A sum of normal entries is normal, and one variable.  A sum of uniform ones is not: functions of it are means over as
many variables as the axis is long, which have to be told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer

from tplimits.program.nodes.entries import AxisSum, entries
from tplimits.program.nodes.kinds import InitialVector

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: so long may an axis be
MOST = 12


def written_out(program: Program) -> Program:
    """The same program with such sums term by term, where the size of the axis is known and small."""
    other = {p for p, s in enumerate(program) if isinstance(s, InitialVector) and s.axes and s.law.shape != "normal"}
    if not other:
        return program

    def terms(total: AxisSum) -> Expr:
        size = program.size(total.axis)
        if size is None or size > MOST or not any(e.source in other for e in entries(total.summand)):
            return total
        return sympy.Add(*(total.summand.xreplace({total.bound: Integer(i)}) for i in range(int(size))))

    def body(expr: Expr) -> Expr:
        if not expr.has(AxisSum):
            return expr
        rebuilt = expr.func(*map(body, expr.args))
        return terms(rebuilt) if isinstance(rebuilt, AxisSum) else rebuilt

    return program.replace(instructions=tuple(s.changed(body) for s in program))
