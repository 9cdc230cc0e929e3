"""Means over neurons given the logits that stay random: √n·Avg of finitely many heads at 1/√n; and over boxes.

A mean of neurons is a function m(s) of such logits, so that it moves with them when parameters do,

    δ Avg(x) = Σ_i E[∂x/∂s_i] δs_i,

with δs_i of order 1, where means of all other tangents vanish.  x reads s_i itself, or an image W y whose variance is a
function of logits: then E[x′(ŷ) δŷ] = Σ E[x″] E[y δy] by Stein's lemma, with the logits in y δy.

A logit s = √n Avg(c y) of what earlier logits t made, y = y(t), is Gaussian given these.  A tangent moves it by
√n Avg(c δy) and by √n Avg(c ∂y/∂t) δt: the latter is as large as s, and not independent of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import AxisSum, axis_symbol
from tplimits.regimes.kernels.derivation.dots import at_places, direction
from tplimits.regimes.kernels.derivation.leaves import ONE_SIDE, Of
from tplimits.regimes.kernels.derivation.terms import Term, at, collapsed, is_random, may_be_polar, summed, terms

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Instruction
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


def random(state: Recursion, name: str, operand: Expr, mean: Expr) -> Expr:
    """A mean over neurons given logits; where functions of neurons hold these, as what is known by its mean alone."""
    factors = (f for term in terms(_outside(state, operand)) for f in term.factors)
    mixed = (f for f in factors if not all(is_made_of(state, x) for x in state.leaves(f)))
    is_mixed = any(is_given(state, x) for f in mixed for x in state.leaves(f))
    return state.known_by_mean(name, operand, mean) if is_mixed else mean


def image_apart(state: Recursion, number: int) -> Expr | None:
    """W (s y) as s·W y, with logits s in front of images that are Gaussian whatever they are; None where none are."""
    node, found = state.nodes[number], S.Zero
    assert node.view is not None and node.operand is not None
    for term in terms(_outside(state, node.operand)):
        fixed = [f for f in term.factors if all(is_made_of(state, x) for x in state.leaves(f))]
        vector = sympy.Mul(*(f for f in term.factors if f not in fixed))
        if vector == 1 or any(is_given(state, x) for x in state.leaves(vector)):
            return None
        found += summed(term.coefficient * sympy.Mul(*fixed, state.image(node, vector)), term.bounds)
    return found


def moved_mean(state: Recursion, operand: Expr) -> Expr:
    """The tangent of a mean of neurons, `operand` that of a neuron; each of infinitely many logits moves it by 0."""
    outside = _outside(state, operand)
    logits = [x for x in state.leaves(outside) if state.nodes[x.node].degree and is_made_of(state, x)]
    many = [x for x in logits if any(a in state.infinite for a in state.nodes[x.node].axes)]
    outside = outside.xreplace(dict.fromkeys(many, S.Zero))
    images = [x for x in state.leaves(outside) if _is_moved_image(state, x)]
    through = sympy.Add(*(_moved_variance(state, term, images) for term in terms(outside) if images))
    return mean_given(state, outside) + through


def _is_moved_image(state: Recursion, leaf: Of) -> bool:
    """Whether a leaf is the hat of an image of a tangent that logits move."""
    node = state.nodes[leaf.node]
    return bool(node.degree) and node.view is not None and node.body is None and is_given(state, leaf)


def _moved_variance(state: Recursion, term: Term, images: Sequence[Of]) -> Expr:
    """E of what multiplies the image of a tangent, times that image: its derivative along images, times E[y δy]."""
    image = next((f for f in term.factors if f in images), None)
    if image is None:
        return S.Zero
    node, others = state.nodes[image.node], sympy.Mul(*(f for f in term.factors if f != image))
    assert node.view is not None and node.operand is not None
    places = dict(zip(map(axis_symbol, node.axes), image.indices, strict=True))
    view = replace(node.view, indices=tuple(at(i, places) for i in node.view.indices))
    along = at_places(state, mean_given(state, direction(state, others, view)))
    moved = moved_mean(state, along * state.placed(node.operand, node.axes, image))
    return collapsed(term.coefficient * state.factor_of(view) * moved, term.bounds)


def why_moved(state: Recursion) -> str:
    """Why there is no tangent kernel given the logits: one that moves with others it is made of; "" where none does."""
    for node in (state.nodes[position] for position in state.fluctuations):
        if node.degree and node.operand is not None and _is_moved_by_logits(state, node.operand):
            return (
                f"`{node.name}` is the move of a random logit that other random logits take part in: they move it by "
                "√n times an average of the fresh factors that it is made of itself, which is not independent of it, "
                "and the mean of the tangent kernel given both is not offered. The NNGP is; for a tangent kernel train "
                "only parameters behind the earlier logits (train=…)."
            )
    return ""


def _is_moved_by_logits(state: Recursion, operand: Expr) -> bool:
    """Whether a tangent reads those of logits, each of which counts: through images as well."""
    for leaf in state.leaves(_outside(state, operand)):
        node = state.nodes[leaf.node]
        if not node.degree:
            continue
        if is_made_of(state, leaf) and state.infinite.isdisjoint(node.axes):
            return True
        if _is_moved_image(state, leaf) and node.operand is not None and _is_moved_by_logits(state, node.operand):
            return True
    return False


def _outside(state: Recursion, expr: Expr) -> Expr:
    """Kets whose law depends on logits written out until the logits stand apart."""
    for leaf in state.leaves(expr):
        node = state.nodes[leaf.node]
        if is_given(state, leaf) and not is_made_of(state, leaf) and node.body is not None:
            expr = expr.xreplace({leaf: _outside(state, state.opened(leaf))})
    return expr


def boxed(state: Recursion, expr: Expr, s: Instruction | None) -> Expr:
    """E over the boxes of an outer nonlinearity, which must stand apart from the rest of the body."""
    parts = []
    for term in (part for found in terms(expr) for part in _multiplied_out(state, found)):
        value = term.coefficient
        sides = [_sides(state, f) for f in term.factors]
        if any(len(found) > 1 for found in sides):
            where = f"`{s.name}` ({s.line})" if s is not None else _name(s)
            raise NoLimitError(
                f"{where}: kernels of a function that mixes two neurons inseparably are not offered; write it as "
                "a sum of products of functions of one neuron each."
            )
        for side in sorted({s for found in sides for s in found} - {1}):
            mine = [_at_side(f, ONE_SIDE) for f, found in zip(term.factors, sides, strict=True) if found == {side}]
            vector, given = sympy.Mul(*mine), [x for f in mine for x in state.leaves(f) if is_given(state, x)]
            mean = moved_mean(state, vector) if any(map(state.degree, given)) else state.expect(mine)
            value *= random(state, _name(s), vector, mean) if given and not state.degree(vector) else mean
        own = [f for f, found in zip(term.factors, sides, strict=True) if found == {1}]
        parts.append(summed(value * sympy.Mul(*own), term.bounds))
    return sympy.Add(*parts)


def _sides(state: Recursion, factor: Expr) -> set[int]:
    """The neurons that a factor reads; logits are of no neuron."""
    return {int(x.side) for x in state.leaves(factor) if not is_made_of(state, x)} or {1}


def _multiplied_out(state: Recursion, term: Term) -> list[Term]:
    """A term whose factors read one neuron each, as far as products of sums, exponentials and waves of sums are ones.

    What is divided by something that may vanish stays whole: a mean that tends to 0 does not beside a pole.
    """
    for k, factor in enumerate(term.factors):
        if len(_sides(state, factor)) < 2 or may_be_polar(factor) or factor.has(AxisSum):
            continue
        written = sympy.expand(factor, trig=True)
        addends = [sympy.Mul.make_args(a) for a in sympy.Add.make_args(written)]
        if len(addends) == 1 and len(addends[0]) == 1:
            return [term]
        others = (*term.factors[:k], *term.factors[k + 1 :])
        found = []
        for factors in addends:
            kets = tuple(f for f in factors if is_random(f))
            coefficient = term.coefficient * sympy.Mul(*(f for f in factors if f not in kets))
            found += _multiplied_out(state, Term(coefficient, term.bounds, (*others, *kets)))
        return found
    return [term]


def _name(s: Instruction | None) -> str:
    return s.name if s is not None else "an outer nonlinearity"


def _at_side(expr: Expr, side: Integer) -> Expr:
    return expr.xreplace({leaf: Of(leaf.args[0], side, *leaf.indices) for leaf in expr.atoms(Of)})
