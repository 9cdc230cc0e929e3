"""Means over neurons given the logits that stay random: √n·Avg of finitely many heads at 1/√n.

A mean of neurons is a function m(s) of such logits, so that it moves with them when parameters do,

    δ Avg(x) = Σ_i E[∂x/∂s_i] δs_i,

with δs_i of order 1, where means of all other tangents vanish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.regimes.kernels.derivation.terms import Term, terms

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.leaves import Of
    from tplimits.regimes.kernels.derivation.recursion import Recursion


def is_given(state: Recursion, leaf: Of) -> bool:
    """Whether the law of a leaf depends on logits."""
    return any(kind == "√n" for kind, *_ in state.nodes[leaf.node].sources)


def is_made_of(state: Recursion, leaf: Of) -> bool:
    """Whether a leaf is a function of logits, or of what they move by, alone."""
    sources = state.nodes[leaf.node].sources
    return bool(sources) and all(kind == "√n" for kind, *_ in sources)


def mean_given(state: Recursion, operand: Expr) -> Expr:
    """E over the neurons, with random logits held fixed; they may only multiply."""
    found = S.Zero
    for term in terms(_outside(state, operand)):
        fixed = [f for f in term.factors if all(is_made_of(state, x) for x in state.leaves(f))]
        moving = tuple(f for f in term.factors if f not in fixed)
        part = Term(term.coefficient * sympy.Mul(*fixed), term.bounds, moving) if moving else term
        found += state.mean_of_terms([part])
    return found


def moved_mean(state: Recursion, operand: Expr) -> Expr:
    """The tangent of a mean of neurons, `operand` that of a neuron; each of infinitely many logits moves it by 0."""
    outside = _outside(state, operand)
    logits = [x for x in state.leaves(outside) if state.nodes[x.node].degree and is_made_of(state, x)]
    many = [x for x in logits if any(a in state.infinite for a in state.nodes[x.node].axes)]
    return mean_given(state, outside.xreplace(dict.fromkeys(many, S.Zero)))


def _outside(state: Recursion, expr: Expr) -> Expr:
    """Kets whose law depends on logits written out until the logits stand apart."""
    for leaf in state.leaves(expr):
        node = state.nodes[leaf.node]
        if is_given(state, leaf) and not is_made_of(state, leaf) and node.body is not None:
            expr = expr.xreplace({leaf: _outside(state, state.opened(leaf))})
    return expr
