"""Dot parts: |Wx⟩˙ = κ Σ_y |y⟩ E[∂|x⟩/∂|Wᵀy⟩^] over the y that Wᵀ was applied to, in the forms of `rules.dots`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import DiracDelta, Expr, Integer, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.rules.dots import NotAFunction, coefficient, solved
from tplimits.program.nodes.entries import AxisSum, Kron, axis_symbol, free_indices
from tplimits.program.nodes.hidden_jumps import ambiguous_delta, derivative, hidden_jumps
from tplimits.program.parts import remembered
from tplimits.regimes.kernels.derivation.leaves import NoTangentKernel, Of, Slot
from tplimits.regimes.kernels.derivation.nodes import Node, View, overlap
from tplimits.regimes.kernels.derivation.terms import at

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion

#: how far a leaf moves, in which direction; no constant can have these names
_ε, _MOVE = Symbol("ε′", real=True), Symbol("move′", real=True)


def dot_part(state: Recursion, view: View, operand: Expr) -> Expr:
    """Σ_y |y⟩ E[∂|x⟩/∂ŷ] for x the operand of W; zero where x does not depend on hats of Wᵀ."""
    transpose = replace(view, transposed=not view.transposed)
    if not any(overlap(state.nodes[x.node].sources, frozenset({transpose.source})) for x in state.leaves(operand)):
        return S.Zero
    found, _ = coefficient(
        lambda: _by_derivative(state, operand, transpose), lambda: _by_stein(state, operand, transpose)
    )
    return at_places(state, found)


def at_places(state: Recursion, expr: Expr) -> Expr:
    """An expression with the vectors in their places."""
    swap = {}
    for slot in expr.atoms(Slot):
        node = state.nodes[slot.node]
        assert node.operand is not None and node.view is not None
        swap[slot] = state.placed(node.operand, node.axes, Of(*slot.args))
    return expr.xreplace(swap)


def _by_derivative(state: Recursion, operand: Expr, view: View) -> Expr:
    """Σ_y |y⟩ E[∂x/∂ŷ], with the places of the vectors in it."""
    derivative = direction(state, operand, view)
    # without its deltas, which have means of their own kind: poles of the rest are what makes no mean
    if not state.judged.is_square_integrable(derivative.xreplace(dict.fromkeys(derivative.atoms(DiracDelta), S.Zero))):
        raise NotAFunction
    try:
        return state.mean(derivative)
    except NoTangentKernel:  # two deltas in one derivative: a jump inside a jump
        raise NotAFunction from None


def _by_stein(state: Recursion, operand: Expr, view: View) -> Expr:
    """Σ_i (C⁻¹ E[ŷ x])_i |y_i⟩ with C the covariance of the hats of `view` that x is a function of."""
    # down to the hats themselves: forms that hold several would hide which one Stein's lemma is about
    written = _through(state, operand, view)
    hats = [x for x in sorted(state.leaves(written), key=sympy.default_sort_key) if _marked(state, x, view) != 0]
    bound = {total.bound for total in written.atoms(AxisSum)}
    # a hat under a sum is as many hats as its axis is long, with a Gram of that size
    if any(free_indices(x) & bound or _marked(state, x, view) != _slot(x) for x in hats):
        raise NoLimitError(
            f"the derivative of {state.shown(operand):.120} along images under the transpose is no function (a jump at "
            "the place of another), and Stein's form needs one image at a time (hypothesis of Eq. 2.19: a derivative "
            "in the mean). Smooth one of the jumps, or use a matrix of its own for the way back."
        )
    gram = [[state.inner(a, b) for b in hats] for a in hats]
    products = [state.mean(x * operand) for x in hats]  # unopened: terms of (h − g)/|h − g| have no means of their own
    return sympy.Add(*(c * _slot(x) for c, x in zip(solved(gram, products), hats, strict=True)))


def _through(state: Recursion, expr: Expr, view: View) -> Expr:
    """An expression written through hats of `view`."""
    swap = {}
    for leaf in state.leaves(expr):
        node = state.nodes[leaf.node]
        if node.body is not None and overlap(node.sources, frozenset({view.source})):
            swap[leaf] = _through(state, state.opened(leaf), view)
    return expr.xreplace(swap) if swap else expr


def _slot(leaf: Of) -> Slot:
    return Slot(Integer(leaf.node), *leaf.args[1:])


def direction(state: Recursion, expr: Expr, view: View) -> Expr:
    """The derivative of an expression along hats of `view`, each marked by the place of its own vector."""
    parts = []
    for leaf in sorted(state.leaves(expr), key=sympy.default_sort_key):
        node = state.nodes[leaf.node]
        if not overlap(node.sources, frozenset({view.source})):
            continue
        inner = _of_leaf(state, leaf, node, view)
        if inner != 0:
            parts.append(_moved(expr, leaf).xreplace({_MOVE: inner}))
    return sympy.Add(*parts)


def _of_leaf(state: Recursion, leaf: Of, node: Node, view: View) -> Expr:
    return direction(state, state.opened(leaf), view) if node.body is not None else _marked(state, leaf, view)


def _marked(state: Recursion, leaf: Of, view: View) -> Expr:
    """The place of a vector under the hat of `view` that a leaf is; zero for another leaf."""
    node = state.nodes[leaf.node]
    if node.view is None or (node.view.matrix, node.view.transposed) != (view.matrix, view.transposed):
        return S.Zero
    places = dict(zip(map(axis_symbol, node.axes), leaf.indices, strict=True))
    same = sympy.Mul(*(Kron(at(i, places), j) for i, j in zip(node.view.indices, view.indices, strict=True)))
    return same * _slot(leaf)


# an expression is differentiated once for the images under all matrices, and for all ways to it
@remembered(1 << 12)
def _moved(expr: Expr, leaf: Of) -> Expr:
    smooth = derivative(expr.xreplace({leaf: leaf + _ε * _MOVE}), _ε).xreplace({_ε: S.Zero})
    return sympy.Add(smooth, *(ambiguous_delta(z) * _moved(z, leaf) for z in hidden_jumps(expr)))
