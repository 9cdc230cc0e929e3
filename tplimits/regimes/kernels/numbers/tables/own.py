"""Expressions of a pair of inputs between one input and itself."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from sympy import Expr, S

from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import Kron, axis_symbol, free_indices
from tplimits.program.parts import found, remembered
from tplimits.regimes.kernels.derivation.leaves import (
    Data,
    Of,
    TableEntry,
    on_second,
    on_side,
    plain_axis,
    side_of,
    sided,
)


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


def is_own(covariances: Sequence[Expr]) -> bool:
    """Whether a law is one of a variable at two inputs: its variances are what its covariance is at each with itself.

    That of h and h − y is none: distances and determinants of the covariance of h, which recursions carry, are not its.
    """
    return len({_at_one_place(c) for c in covariances}) == 1


@remembered(1 << 14)
def _at_one_place(expr: Expr) -> Expr:
    """A covariance with the places of both sides by the same names."""
    mine = on_side(expr, 1)
    return canonical_bound_axes(mine.xreplace({i: axis_symbol(plain_axis(i.name)) for i in free_indices(mine)}))


def one_sided(factors: Sequence[Expr]) -> tuple[Expr, Expr, Expr] | None:
    """Factors beside a kernel: numbers, a function f of input 1 and the same of input 2; None for others.

    f(ξ) K(ξ, ξ′) f(ξ′) is a kernel again, where K(ξ, ξ′) f(ξ′) is the covariance of two variables.
    """
    free = [a for a in factors if not (a.atoms(TableEntry, Data, Of) or free_indices(a))]
    mine, theirs = ([a for a in factors if a not in free and _side(a) == side] for side in (1, 2))
    left, right = sympy.Mul(*mine), sympy.Mul(*theirs)
    whole = len(free) + len(mine) + len(theirs) == len(factors)
    return (sympy.Mul(*free), left, right) if whole and alike(left, right) else None


def _side(expr: Expr) -> int:
    sides = {s for t in expr.atoms(TableEntry) for s in t.sides} | {d.side for d in expr.atoms(Data, Of)}
    return sides.pop() if len(sides) == 1 else 0


def alike(left: Expr, right: Expr) -> bool:
    """Whether two factors are the same function of either input: of equal places, or of each its own."""
    return sided(left, 2, 2) == right or on_second(left) == right


def matches(left: Expr, right: Expr) -> bool:
    """Whether two indices are the same place, or each its own of either side."""
    return left == right or on_second(left) == right
