"""Sums over infinitely many members where they are read: by functions as their limits, beside powers of their number.

Members are independent given what they share: Σ_h F_h over the root of their number is Gaussian, over their number E F.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr, Integer, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import AxisSum, Leaf, axis_symbol, free_indices
from tplimits.program.nodes.kinds import Avg, Nonlin
from tplimits.program.parts import put_in, rebuilt
from tplimits.regimes.kernels.derivation.infinite import (
    at_many,
    drawn_by_members,
    grown,
    is_of_members,
    limit_of_sum,
    members_summed,
    sizes,
    unfinished,
)
from tplimits.regimes.kernels.derivation.leaves import Of, plain_axis
from tplimits.regimes.kernels.derivation.terms import Term, summed, terms

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.expectations import Expectations
    from tplimits.regimes.kernels.derivation.nodes import Node
    from tplimits.regimes.kernels.derivation.recursion import Recursion


def refuse_lower_sizes(state: Recursion, position: int) -> None:
    """NoLimitError where a power of an infinite size may bring out what a mean over members has at lower orders."""
    s = state.program[position]
    if not isinstance(s, Nonlin) or not (powers := grown(s.body, state.infinite)):
        return
    graph = state.program.graph
    behind = networkx.ancestors(graph, position)
    averaged = (p for p in behind if isinstance(state.program[p], Avg))
    axes = {a for p in averaged for q in networkx.ancestors(graph, p) for a in state.program[q].axes}
    for size in powers:
        if (axis := size.name.strip("|")) in axes:
            raise NoLimitError(
                f"{state.program.where(position)}: a power of {size} multiplies what is made of averages over neurons "
                f"of sums over `{axis}`: their lower orders in 1/{size} are not derived. Divide the sums themselves, "
                f"by tp.sqrt(tp.size({axis!r})) or tp.size({axis!r}), before they are averaged."
            )


def averaged_out(state: Expectations, term: Term) -> bool:
    """Whether a term is a sum over infinitely many independent centred members: Gaussian whatever they are."""
    leaf = term.factors[0]
    assert isinstance(leaf, Of)
    over = {i for i, a in term.bounds if a.name in state.infinite}
    return bool(over & set(leaf.indices)) and is_of_members(state, leaf) and state.mean_of(leaf) == 0


def kept_open(state: Recursion, position: int, body: Expr) -> None:
    """Keep a vector written out where it sums over infinite axes without a power of their size: a reader may divide."""
    known = not state.infinite or position in state.open
    if not known and unfinished(spread := _spread(state, body), state.infinite):
        state.open[position] = spread


def image_kept_open(state: Recursion, position: int, hat: Node, operand: Expr) -> None:
    """The same of an image: that of the sum over the root of the number of members, times that root."""
    if state.infinite and (left := unfinished(spread := _spread(state, operand), state.infinite)):
        assert hat.view is not None
        roots = sympy.Mul(*map(sympy.sqrt, left))
        image = Of(Integer(state.new_node(replace(hat, operand=spread / roots))), S.One, *map(axis_symbol, hat.axes))
        dot = state.dot(position, hat.view, spread / roots)
        state.open[position] = roots * (image + state.factor_of(hat.view) * dot)


def _spread(state: Recursion, expr: Expr) -> Expr:
    read = [x for x in state.leaves(expr) if x.node in state.open]
    return put_in(expr, {x: state.placed(state.open[x.node], state.nodes[x.node].axes, x) for x in read}, {})


def inside_functions(state: Expectations, expr: Expr) -> Expr:
    """An expression with sums over infinite axes that functions read as what they are in the limit."""
    found = _inside_functions(state, expr) if state.infinite else expr
    # beside these functions the same sums are the same variables
    return found if found == expr else with_limits_of_sums(state, _with_sums_of_members(state, found), centred=True)


def _inside_functions(state: Expectations, expr: Expr) -> Expr:
    if not expr.args or (isinstance(expr, Leaf) and not isinstance(expr, AxisSum)):
        return expr
    if isinstance(expr, (sympy.Add, sympy.Mul, AxisSum)) or (expr.is_Pow and expr.exp.is_Integer and expr.exp > 0):
        return rebuilt(expr, [_inside_functions(state, a) for a in expr.args])
    spread = _with_sums_of_members(state, expr)
    if not members_summed(spread, state.infinite):
        return expr
    found = rebuilt(spread, [sympy.expand(with_limits_of_sums(state, a)) for a in spread.args])
    if left := sizes(found, state.infinite):
        raise NoLimitError(f"{state.shown(expr):.120} is a function of a sum over {_not_of_order_one(found, left[0])}")
    return found


def _not_of_order_one(expr: Expr, size: Symbol) -> str:
    axis = size.name.strip("|")
    many, divide = f"infinitely many members of `{axis}`", f"divide by tp.sqrt(tp.size({axis!r}))"
    try:
        at_many(expr, size)
    except ValueError:
        return f"{many}, which grows with their number: {divide} for independent members, by tp.size for averages."
    return (
        f"{many}, of which all or a part vanishes like a power of their number: what a function makes of that at lower "
        f"orders is not derived. Leave the part out, or {divide} what has no mean."
    )


def _with_sums_of_members(state: Expectations, expr: Expr) -> Expr:
    """An expression with vectors that are not Gaussian written out where sums over infinite axes stand in them."""
    swap = {}
    for leaf in state.leaves(expr):
        node = state.nodes[leaf.node]
        if node.body is not None and not node.gaussian:
            spread = _with_sums_of_members(state, state.opened(leaf))
            if members_summed(spread, state.infinite):
                swap[leaf] = spread
    return expr.xreplace(swap)


def with_limits_of_sums(state: Expectations, expr: Expr, centred: bool = False) -> Expr:
    """Σ_h u F_h over infinitely many members as |h|^½ u G, G Gaussian of the law of F, or as |h| u E F.

    F_h reads draws of the member alone, u none: given u the members are independent, and this is their limit theorem.
    G is the sum itself, and written out where members stand beside it; E F is its limit: `centred` leaves those sums.
    """
    if not isinstance(expr, AxisSum):
        if not expr.args or isinstance(expr, Leaf):
            return expr
        return rebuilt(expr, [with_limits_of_sums(state, a, centred) for a in expr.args])
    if plain_axis(expr.axis) not in state.infinite:
        return AxisSum(with_limits_of_sums(state, expr.summand, centred), *expr.args[1:])
    mixed = {x for x in state.leaves(expr) if _is_mixed(state, x, expr.bound)}
    spread = terms(expr.xreplace({x: state.opened(x) for x in mixed}))
    found = [limit_of_sum(state, term, term.bounds[0][0], centred) for term in spread]
    known = [t for t in found if t is not None]
    return (
        expr
        if len(known) < len(found)
        else sympy.Add(*(summed(t.coefficient * sympy.Mul(*t.factors), t.bounds) for t in known))
    )


def _is_mixed(state: Expectations, leaf: Of, index: Expr) -> bool:
    """Whether a member, or what stands for all of them, is made of what members share and of what they do not."""
    drawn = drawn_by_members(state, leaf)
    has_parts = drawn != {True} and (True in drawn or index in free_indices(leaf))
    return has_parts and state.nodes[leaf.node].body is not None
