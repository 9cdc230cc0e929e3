"""Dot parts: |Wx⟩˙ = κ Σ_y |y⟩ E[∂|x⟩/∂|Wᵀy⟩^] over the y that Wᵀ was applied to (Yang & Littwin, Eq. 2.19)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer, S, Symbol

from tplimits.limit.kernels.leaves import Kron, Of, Slot
from tplimits.limit.kernels.nodes import Node, View, overlap
from tplimits.limit.kernels.terms import at
from tplimits.program.entries import axis_symbol

if TYPE_CHECKING:
    from tplimits.limit.kernels.recursion import Recursion

_ε = Symbol("ε", real=True)


def dot_part(state: Recursion, view: View, operand: Expr) -> Expr:
    """Σ_y |y⟩ E[∂|x⟩/∂ŷ] for x the operand of W; zero where x does not depend on hats of Wᵀ."""
    transpose = replace(view, transposed=not view.transposed)
    marked = _direction(state, operand, transpose)
    if marked == 0:
        return S.Zero
    mean = state.mean(marked)
    swap = {}
    for slot in mean.atoms(Slot):
        node = state.nodes[slot.node]
        assert node.operand is not None and node.view is not None
        swap[slot] = state.placed(node.operand, node.axes, Of(*slot.args))
    return mean.xreplace(swap)


def _direction(state: Recursion, expr: Expr, view: View) -> Expr:
    """The derivative of an expression along hats of `view`, each marked by the place of its own vector."""
    parts = []
    for leaf in sorted(state.leaves(expr), key=sympy.default_sort_key):
        node = state.nodes[leaf.node]
        if not overlap(node.sources, frozenset({view.source})):
            continue
        inner = _of_leaf(state, leaf, node, view)
        if inner != 0:
            parts.append(_replaced(expr, leaf, inner))
    return sympy.Add(*parts)


def _of_leaf(state: Recursion, leaf: Of, node: Node, view: View) -> Expr:
    if node.body is not None:
        return _direction(state, state.opened(leaf), view)
    if node.view is None or (node.view.matrix, node.view.transposed) != (view.matrix, view.transposed):
        return S.Zero
    places = dict(zip(map(axis_symbol, node.axes), leaf.indices, strict=True))
    same = sympy.Mul(*(Kron(at(i, places), j) for i, j in zip(node.view.indices, view.indices, strict=True)))
    return same * Slot(Integer(leaf.node), *leaf.args[1:])


def _replaced(expr: Expr, leaf: Of, inner: Expr) -> Expr:
    """∂expr/∂leaf times what the leaf moves by, also inside sums over finite axes."""
    return expr.xreplace({leaf: leaf + _ε * inner}).diff(_ε).xreplace({_ε: S.Zero})
