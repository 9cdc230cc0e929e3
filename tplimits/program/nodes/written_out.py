"""Named maps that stand in the bodies of those who read them: what is singular, and what stands beside it.

    eˣ of eˣ/(eˣ + eʸ)   x² of √(x² + y²)   |x| of |x|/x   step(x) of x step(x)   eˣ − 1 of where(x, x, eˣ − 1)

By itself each grows faster, or has a steeper gradient, than the function that it is a part of: what is asked of a ket
is asked of that function, whatever its parts are called.  What is read by nobody else keeps its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sympy import Add, Expr, Function, Mul

from tplimits.program.nodes.domains import is_singular, jumps
from tplimits.program.nodes.entries import AxisSum, Entry, divides_by_vectors, sources
from tplimits.program.nodes.functions import where
from tplimits.program.parts import holds

if TYPE_CHECKING:
    from tplimits.program.language.values import Value


def beside_singular(values: Sequence[Value], named: Collection[int], kept: Collection[int]) -> set[int]:
    """The maps of one neuron that are written out, but for those that are `kept`."""
    bodies = {u: v.origin.data[0] if v.origin.kind == "outer" else v.expr for u, v in enumerate(values) if _is_map(v)}
    # sums over an axis are statistics of their own, and so are means, which are multiples of sums without a name
    sums = {u for u, v in enumerate(values) if holds(v.expr, AxisSum)}
    unnamed = sums.difference(named)
    summed = sums | {u for u, body in bodies.items() if isinstance(e := _multiple(body), Entry) and e.source in unnamed}
    plain = {u for u in bodies if values[u].origin.kind == "map" and not values[u].neurons} - summed - {*kept}
    singular: set[int] = set()
    jumping: set[int] = set()
    for u in sorted(plain):
        # tanh takes growth away, and no jump
        if jumps(bodies[u]) or not jumping.isdisjoint(sources(bodies[u])):
            jumping.add(u)
        through = not holds(bodies[u], Function) and not singular.isdisjoint(sources(bodies[u]))
        if through or u in jumping or is_singular(bodies[u]):
            singular.add(u)
    leaves: dict[int, frozenset[int]] = {}
    for u in range(len(values)):
        read = sources(bodies[u]) if u in bodies and u not in sums else ()
        leaves[u] = frozenset().union(*(leaves[r] for r in read)) or frozenset({u})
    # 0·y/s is 0, whatever 0·y is called
    found = {u for u in plain if bodies[u].is_number}
    for u in sorted(bodies, reverse=True):
        # what stands in a sum alone is beside nothing, unless the sum itself stands in another function
        for term in _terms(bodies[u]) if u not in found else [bodies[u]]:
            found |= _beside(term, singular, leaves, u in found) & plain
    return found


def with_poles(values: Sequence[Value]) -> set[int]:
    """The maps that are a multiple of what is divided by a vector that may be zero, or a sum with such a term."""
    found: set[int] = set()

    def divides(expr: Expr) -> bool:
        if isinstance(expr, Entry):
            return expr.source in found
        if isinstance(expr, (Add, Mul, where)):
            # of alternatives that are chosen between, where one is such a map
            return any(map(divides, expr.args[isinstance(expr, where) :]))
        return divides_by_vectors(expr)

    for uid, value in enumerate(values):
        if value.origin.kind == "map" and divides(value.expr):
            found.add(uid)
    return found


def _beside(term: Expr, singular: Collection[int], leaves: Mapping[int, frozenset[int]], is_read: bool) -> set[int]:
    """What is written out in a term: all that it reads if it `is_read` elsewhere, or else what meets a singular factor.

    A vector that is independent of such a factor, v of v·eˣ, takes nothing away from it.
    """
    if is_read:
        return sources(term)
    found: set[int] = set()
    factors = [(f, sources(f)) for f in Mul.make_args(term) if sources(f)]
    rests = [(f, read, frozenset().union(*(leaves[r] for r in read))) for f, read in factors]
    for f, read, own in rests:
        beside = [(g, others) for g, others, its in rests if g is not f and own & its]
        within = not isinstance(f, Entry) and (is_singular(f) or not read.isdisjoint(singular))
        meets = beside and not read.isdisjoint(singular)
        if within or meets or any(is_singular(g) or not others.isdisjoint(singular) for g, others in beside):
            found |= read
    return found


def _is_map(value: Value) -> bool:
    return value.width is not None and value.origin.kind in ("map", "outer")


def _multiple(term: Expr) -> Expr:
    """What a term is a multiple of, by numbers and sizes."""
    return term.as_independent(Entry, as_Add=False)[1]


def _terms(expr: Expr) -> Iterator[Expr]:
    """The terms of a sum that are more than a multiple of one value."""
    for term in expr.args if expr.is_Add else (expr,):
        if not isinstance(_multiple(term), Entry):
            yield term
