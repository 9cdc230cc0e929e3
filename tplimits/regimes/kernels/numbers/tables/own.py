"""Expressions of a pair of inputs between one input and itself."""

from __future__ import annotations

import sympy
from sympy import Expr, S

from tplimits.program.nodes.entries import Kron, free_indices
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import Data, TableEntry, on_second, side_of


def of_pair(expr: Expr) -> bool:
    """Whether an expression depends on both inputs, or on places of both, at once."""
    if any(t.sides[0] != t.sides[1] for t in found(expr, TableEntry)) or len({d.side for d in found(expr, Data)}) == 2:
        return True
    return len({side_of(i.name) for i in free_indices(expr)}) == 2


def own(expr: Expr, side: int) -> Expr | None:
    """An expression of a pair between one input and itself, at the places of its side; None if they do not match."""
    swap = {}
    for leaf in found(expr, TableEntry):
        if leaf.sides[0] != leaf.sides[1]:
            half = len(leaf.indices) // 2
            left, right = leaf.indices[:half], leaf.indices[half:]
            if len(leaf.indices) % 2 or not all(matches(a, b) for a, b in zip(left, right, strict=True)):
                return None
            mine = left if side == 1 else right
            swap[leaf] = TableEntry(leaf.args[0], sympy.Integer(side), sympy.Integer(side), *mine, *mine)
        elif leaf.sides[0] != side:
            return None
    data = found(expr, Data)
    for leaf in data:
        match = [d for d in data if d.side == side and d.source == leaf.source]
        if len(match) != 1:
            return None
        swap[leaf] = match[0]
    for leaf in found(expr, Kron):
        swap[leaf] = S.One
    return expr.xreplace(swap)


def matches(left: Expr, right: Expr) -> bool:
    """Whether two indices are the same place, or each its own of either side."""
    return left == right or on_second(left) == right
