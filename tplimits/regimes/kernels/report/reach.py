"""How far apart the places of two inputs are at which a table is wanted: index arrays, from the readout backwards.

What `derivation.demand` compares as expressions holds for all sizes; here sizes are known, and the pairs of places that
each reader asks for are followed through the values of index arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import Lookup, axis_symbol
from tplimits.regimes.kernels.derivation.leaves import TableEntry, plain_axis, second
from tplimits.regimes.kernels.numbers.tables.shifts import grid

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.derivation.nodes import KernelTable

#: places up to which pairs are followed
_MOST = 1024
#: truth values over places of both sides; whole numbers over what is summed and places
Pairs = Any
Places = Any


def reach(derivation: KernelTables) -> dict[int, str]:
    """By table: how far apart its places are, where not all pairs of them are wanted."""
    network, demand = derivation.network, derivation.demand
    sizes = {a: int(s) for a in network.all_axes if (s := network.size(a)) is not None and s.is_Integer}
    tracked = {
        t.number: t
        for t in derivation.needed
        if len(t.left) == len(t.right) == 1
        and plain_axis(t.left[0]) == plain_axis(t.right[0])
        and 1 < sizes.get(plain_axis(t.left[0]), 0) <= _MOST
    }
    pairs: dict[int, Pairs] = {n: numpy.zeros((sizes[plain_axis(t.left[0])],) * 2, bool) for n, t in tracked.items()}
    number = numpy.ones((1, 1), bool)
    for root in (demand.nngp, demand.ntk):
        _follow(derivation, root, None, number, pairs, sizes)
    for table in reversed(derivation.needed):
        asked = pairs.get(table.number) if table.left or table.right else number
        if table.number in demand.cross or table.number in pairs:
            _follow(derivation, demand.definitions[table.number], table, asked, pairs, sizes)

    def said(n: int, found: Pairs) -> str:
        axis = tracked[n].left[0]
        return _words(axis, found, _width(derivation, axis, len(found)))

    return {n: words for n, found in pairs.items() if (words := said(n, found))}


def _follow(
    derivation: KernelTables,
    expr: Expr,
    table: KernelTable | None,
    asked: Pairs | None,
    pairs: Mapping[int, Pairs],
    sizes: Mapping[str, int],
) -> None:
    """Add what an expression reads where it is asked for at these pairs of places, or all of it."""
    mine = axis_symbol(table.left[0]) if table is not None and len(table.left) == 1 else None
    theirs = second(axis_symbol(table.right[0])) if table is not None and len(table.right) == 1 else None
    for leaf in expr.atoms(TableEntry):
        if leaf.sides[0] == leaf.sides[1] or leaf.table not in pairs:
            continue
        found = pairs[leaf.table]
        sides = [_side(derivation, i, own, sizes) for i, own in zip(leaf.indices, (mine, theirs), strict=True)]
        if asked is None or any(s is None for s in sides):
            found[...] = True
            continue
        (left, one), (right, other) = sides  # type: ignore[misc]
        shared = [i for i in one if i in other]
        for values in itertools.product(*(range(left.shape[one.index(i)]) for i in shared)):
            at = dict(zip(shared, values, strict=True))
            _read(found, asked, *(_taps(places, names, at) for places, names in ((left, one), (right, other))))


def _taps(places: Places, names: list[Symbol], at: Mapping[Symbol, int]) -> Places:
    """Places (taps, own places) at some values of indices that are summed over."""
    some = places[tuple(at.get(i, slice(None)) for i in names)]
    return some.reshape(-1, places.shape[-1])


def _read(found: Pairs, asked: Pairs, left: Places, right: Places) -> None:
    """Add the pairs that taps of either side read of those that are asked for."""
    if len(left) == len(right) == 1:
        _add(found, asked, left[0], right[0])
        return
    half = numpy.zeros((len(found), asked.shape[1]), bool)
    for p in left:
        _add(half, asked, p, numpy.arange(asked.shape[1]))
    for q in right:
        _add(found, half, numpy.arange(len(found)), q)


def _add(found: Pairs, asked: Pairs, left: Places, right: Places) -> None:
    """Pairs of places that one tap of either side reads; −1 reads nothing."""
    rows, columns = numpy.flatnonzero(left >= 0), numpy.flatnonzero(right >= 0)
    some, (p, q) = asked[numpy.ix_(rows, columns)], (left[rows], right[columns])
    if len(numpy.unique(p)) == len(p) and len(numpy.unique(q)) == len(q):
        found[numpy.ix_(p, q)] |= some
    else:
        numpy.logical_or.at(found, numpy.ix_(p, q), some)


def _side(
    derivation: KernelTables, index: Expr, own: Symbol | None, sizes: Mapping[str, int]
) -> tuple[Places, list[Symbol]] | None:
    """Places over (indices that are summed over, own places) that an index reads; None where it is no array of them."""
    if isinstance(index, Symbol):
        many = sizes.get(plain_axis(index.name))
        if many is None:
            return None
        run = numpy.arange(many)
        return (run, []) if index == own else (run[:, None], [index])
    if not isinstance(index, Lookup) or not all(isinstance(i, Symbol) for i in index.indices):
        return None
    values = numpy.asarray(derivation.recursion.program.tables[index.table].values, numpy.int64)
    place = [k for k, i in enumerate(index.indices) if i == own]
    names = [i for i in index.indices if i != own]
    if len(place) > 1 or values.ndim != len(index.indices) or len(set(names)) < len(names):
        return None
    return (numpy.moveaxis(values, place[0], -1) if place else values[..., None]), names


def _width(derivation: KernelTables, axis: str, size: int) -> int:
    """Columns of the image that an axis holds row by row, as index arrays show it; all of it where none does."""
    for table in derivation.needed:
        for leaf in derivation.demand.definitions.get(table.number, table.definition).atoms(TableEntry):
            read = derivation.recursion.tables[leaf.table]
            for name, index in zip((*read.left, *read.right), leaf.indices, strict=False):
                if plain_axis(name) == plain_axis(axis) and isinstance(index, Lookup):
                    values = numpy.asarray(derivation.recursion.program.tables[index.table].values)
                    found = grid(values.reshape(-1, values.shape[-1]), size)
                    if found is not None:
                        return found.source[1]
    return size


def _words(axis: str, found: Pairs, width: int) -> str:
    """At which pairs of places; nothing where it is all of them, or none."""
    if found.all() or not found.any():
        return ""
    p, q = numpy.nonzero(found)
    places = numpy.divmod(numpy.arange(len(found)), width)
    down, across = (int(abs(k[p] - k[q]).max()) for k in places)
    box = numpy.logical_and(*(abs(k[:, None] - k) <= f for k, f in zip(places, (down, across), strict=True)))
    if box.all():
        return f"at some pairs of {axis}"
    apart = f"{across}" if width == len(found) or down == across else f"{down} rows and {across} columns"
    return f"at {'' if box.sum() == found.sum() else 'some '}{axis} whose offset is at most {apart}"
