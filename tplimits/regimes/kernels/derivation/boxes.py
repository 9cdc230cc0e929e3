"""Means over the other neurons of an outer nonlinearity, inside its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation import logits
from tplimits.regimes.kernels.derivation.brackets import ONE_SIDE
from tplimits.regimes.kernels.derivation.leaves import Of
from tplimits.regimes.kernels.derivation.terms import terms

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.regimes.kernels.derivation.recursion import Recursion


def boxed(state: Recursion, expr: Expr, s: Instruction | None) -> Expr:
    """E over the boxes of an outer nonlinearity, which must stand apart from the rest of the body."""
    parts = []
    for term in terms(expr):
        value = term.coefficient
        sides = [{int(leaf.side) for leaf in state.leaves(f)} for f in term.factors]
        if any(len(found) > 1 for found in sides):
            where = f"`{s.name}` ({s.line})" if s is not None else "an outer nonlinearity"
            raise NoLimitError(
                f"{where}: kernels of a function that mixes two neurons inseparably are not offered; write it as "
                "a sum of products of functions of one neuron each."
            )
        for side in sorted({s for found in sides for s in found} - {1}):
            mine = [_at_side(f, ONE_SIDE) for f, found in zip(term.factors, sides, strict=True) if found == {side}]
            moved = any(logits.is_given(state, x) and state.degree(x) for f in mine for x in state.leaves(f))
            value *= logits.moved_mean(state, sympy.Mul(*mine)) if moved else state.expect(mine)
        own = [f for f, found in zip(term.factors, sides, strict=True) if found == {1}]
        part = value * sympy.Mul(*own)
        for index, axis in reversed(term.bounds):
            part = AxisSum(part, index, axis)
        parts.append(part)
    return sympy.Add(*parts)


def _at_side(expr: Expr, side: Integer) -> Expr:
    return expr.xreplace({leaf: Of(leaf.args[0], side, *leaf.indices) for leaf in expr.atoms(Of)})
