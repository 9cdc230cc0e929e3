"""Scalars whose sign turns with that of a matrix: their law is symmetric, since W and −W have one law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import AxisSum, Entry
from tplimits.program.nodes.kinds import Avg, MatMul, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tplimits.program.nodes.program import Program

#: matrices whose sign turns that of an expression, and those whose sign it does not depend on
Signs = tuple[frozenset[int], frozenset[int]]


class Turning:
    """Of each instruction of a program, which matrices turn its sign."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._matrices = frozenset(s.matrix for s in program if isinstance(s, MatMul))
        self._known: dict[int, Signs] = {}

    def together(self, entries: Iterable[Entry]) -> bool:
        """Whether one matrix turns the signs of all of them."""
        return bool(frozenset.intersection(*(self._of(e.source)[0] for e in entries)))

    def _of(self, position: int) -> Signs:
        if position not in self._known:
            s = self.program[position]
            found: Signs = (frozenset(), self._matrices)
            if isinstance(s, (MatMul, Avg)):
                found = self._read(s.operand)
                if isinstance(s, MatMul):
                    # linear in W: its sign comes out, those of other matrices do not matter to it
                    found = _product([found, (frozenset({s.matrix}), self._matrices - {s.matrix})])
            elif isinstance(s, (OuterNonlin, ScalarNonlin)):
                found = self._read(s.body)
            self._known[position] = found
        return self._known[position]

    def _read(self, expr: Expr) -> Signs:
        if isinstance(expr, Entry):
            return self._of(expr.source)
        if not expr.has(Entry):
            return frozenset(), self._matrices
        if isinstance(expr, AxisSum):
            return self._read(expr.summand)
        inside = [self._read(a) for a in expr.args]
        if isinstance(expr, sympy.Mul):
            return _product(inside)
        if isinstance(expr, sympy.Pow) and expr.exp.is_Integer:
            # an even power does not turn, an odd one does; a negative one turns like the positive
            return _product(inside[:1] * abs(int(expr.exp)))
        still = frozenset.intersection(*(i[1] for i in inside))
        # a sum turns if all terms do; of other functions parity is not looked at
        odd = frozenset.intersection(*(i[0] for i in inside)) if isinstance(expr, sympy.Add) else frozenset()
        return odd, still


def _product(factors: list[Signs]) -> Signs:
    odd, still = factors[0]
    for other, unmoved in factors[1:]:
        odd, still = (odd & unmoved) | (still & other), (still & unmoved) | (odd & other)
    return odd, still
