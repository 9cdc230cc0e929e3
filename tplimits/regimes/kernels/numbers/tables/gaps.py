"""Gaps (c11 + c22)/2 − c12 of the expressions of a recursion: half the squared distance of two variables.

Linear parts act on gaps as on covariances: sums over shared taps, positive numbers, independent branches; a constant
that all inputs share adds nothing, and of data it is ½ Σ (x − x′)².  Factors f, f′ of one input each make of G

    f f′ G + ½ (f − f′)(f c − f′ c′),

averages with weights p on one side and q on the other

    pᵀG₁₂q − ½ pᵀG₁₁p − ½ qᵀG₂₂q + ½ (Σp − Σq)(p·c − q·c′),

and piecewise linear functions what `laws` says.  Where no rule fits there is no gap, and the covariance is kept.

The gap (c11 + c22)/2 + c12 of one variable and the negative of the other (`sign` −1) keeps the digits of opposite
inputs.  Its rules are the same, but that of data is ½ Σ (x + x′)² and a constant c adds 2c.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import AxisSum, Kron, axis_symbol, free_indices
from tplimits.regimes.kernels.derivation.leaves import Data, Datum, Moment, Of, TableEntry, second, side_of, sided
from tplimits.regimes.kernels.numbers.tables import sums
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, diagonal, mapped, renamed
from tplimits.regimes.kernels.numbers.tables.laws import half_squared_distance
from tplimits.regimes.kernels.numbers.tables.own import matches, of_pair, one_sided, own
from tplimits.regimes.kernels.numbers.tables.shifts import edges, summed_gaps
from tplimits.regimes.kernels.numbers.tables.slopes import slopes

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.demand import Ties
    from tplimits.regimes.kernels.derivation.nodes import KernelTable
    from tplimits.regimes.kernels.numbers.tables.frames import Frame

Array = numpy.ndarray


def from_gap(one: Array, other: Array, gap: Array) -> Array:
    """A covariance from variances and its gap."""
    return 0.5 * (one + other) - gap


def variance(frame: Frame, table: KernelTable, equal: Ties, side: int) -> Any:
    """The entries of a table between an input and itself at equal places, by the indices of one side."""
    mine = [axis_symbol(a) for a in table.left]
    theirs = [second(axis_symbol(a)) for a in table.right]
    places = {theirs[q]: mine[p] for p, q in equal}
    indices = mine if side == 1 else [places.get(i, i) for i in theirs]
    number = sympy.Integer(side)
    return frame.value(TableEntry(sympy.Integer(table.number), number, number, *indices, *indices))


def gap(frame: Frame, expr: Expr, sign: int = 1) -> Any:
    """The gap of an expression as an array, with the negative of the other side for `sign` −1; None without a rule."""
    if (expr, sign) not in frame.gaps:
        frame.gaps[expr, sign] = _gap(frame, expr, sign)
    return frame.gaps[expr, sign]


def _gap(frame: Frame, expr: Expr, sign: int) -> Any:
    if isinstance(expr, TableEntry):
        same = expr.sides[0] == expr.sides[1] and frame.input[1] != frame.input[2]
        return (
            None if same or expr.has(sums.Lookup) or _between_members(frame, expr) else frame.gap_of_entry(expr, sign)
        )
    if isinstance(expr, Kron):
        if len(free_indices(expr)) != 2 and not _by_data(expr):
            return None
        one = Labelled(numpy.asarray(1.0))
        return mapped(complement, [frame.value(expr)]) if sign > 0 else mapped(total, [one, frame.value(expr)])
    if isinstance(expr, Moment):
        found = slopes(expr) if sign > 0 else None  # of what is no odd function (c11 + c22)/2 + c12 keeps its digits
        return None if found is None else frame.of_law(expr, found)
    if isinstance(expr, AxisSum):
        return _sum(frame, expr, sign)
    if isinstance(expr, sympy.Mul):
        return _scaled(frame, expr, sign)
    if isinstance(expr, sympy.Add):
        return _added(frame, expr, sign)
    return None


def _between_members(frame: Frame, leaf: TableEntry) -> bool:
    """Whether two members are named, as tokens 0 and 1: distances of such pairs do not add up to that of a sum."""
    many = len(frame.tables.derivation.recursion.tables[leaf.table].left)
    pairs = itertools.zip_longest(leaf.indices[:many], leaf.indices[many:])
    return any(i != j and (i is None or j is None or i.is_number or j.is_number) for i, j in pairs)


def _by_data(kron: Kron) -> bool:
    """Whether two inputs are asked for the same token: each has its own."""
    one, other = kron.args
    alone = isinstance(one, Datum) and isinstance(other, Datum) and one.side != other.side
    return alone and one.source == other.source and not kron.has(sums.Lookup)


def complement(same: Array) -> Array:
    """The gap of members that are the same or independent."""
    return 1.0 - same


def _added(frame: Frame, expr: sympy.Add, sign: int) -> Any:
    parts = [a for a in expr.args if of_pair(a)]
    shared = [a for a in expr.args if a not in parts]
    # what depends on one input alone is no constant that both share, and does not cancel
    if any(a.atoms(TableEntry, Data, Of) or free_indices(a) for a in shared):
        return None
    found = [gap(frame, a, sign) for a in parts]
    if not found or any(f is None for f in found):
        return None
    twice = [frame.value(2 * sympy.Add(*shared))] if shared and sign < 0 else []
    return mapped(total, [*found, *twice])


def total(*arrays: Array) -> Array:
    """The sum."""
    return sum(arrays[1:], arrays[0])


def _scaled(frame: Frame, expr: sympy.Mul, sign: int) -> Any:
    """One kernel times a number, or times a function of either input."""
    pairs = [a for a in expr.args if of_pair(a)]
    if len(pairs) != 1:
        return None
    (kernel,) = pairs
    beside, inner = one_sided([a for a in expr.args if a is not kernel]), gap(frame, kernel, sign)
    # different functions of the two inputs do not agree where the inputs do
    if inner is None or beside is None:
        return None
    free, left, right = beside
    number = frame.value(free)
    # a negative factor turns a near pair into a far one: −K has no gap of this kind
    if not isinstance(number, Labelled) or number.labels or number.array < 0:
        return None
    if left == right == 1:
        return mapped(numpy.multiply, [number, inner])
    one, other = own(kernel, 1), own(kernel, 2)
    if one is None or other is None:
        return None
    values = [number, inner, *(frame.value(e) for e in (left, right, one, other))]
    return mapped(factors, values)


def factors(number: Array, inner: Array, f: Array, g: Array, c: Array, d: Array) -> Array:
    """The rule of factors f, f′ of one input each, times a number."""
    return number * (f * g * inner + 0.5 * (f - g) * (f * c - g * d))


def acute(frame: Frame, expr: Expr) -> bool:
    """Whether a covariance is never negative, being one of functions that are not."""
    if isinstance(expr, TableEntry):
        tables, number = frame.tables, expr.table
        if number not in tables.acute:
            definition = tables.derivation.recursion.tables[number].definition
            given = definition if tables.demand is None else tables.demand.definitions[number]
            tables.acute[number] = acute(frame, given)
        return tables.acute[number]
    if isinstance(expr, Moment):
        found = slopes(expr)
        return found is not None and min(found) >= 0
    if isinstance(expr, AxisSum):
        return acute(frame, expr.summand)
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        return all(acute(frame, a) for a in expr.args)
    return isinstance(expr, Kron) or bool(expr.is_nonnegative)


def _sum(frame: Frame, expr: AxisSum, sign: int) -> Any:
    picking = sums.picked(frame, expr)
    if picking is not None:
        return _picked(frame, expr, picking, sign)
    bounds, body = sums.nest(expr)
    if isinstance(body, sympy.Add):
        return gap(frame, sympy.Add(*(sums.summed(a, expr) for a in body.args)), sign)
    data = [f for f in sympy.Mul.make_args(body) if isinstance(f, Data)]
    rest = [f for f in sympy.Mul.make_args(body) if not isinstance(f, Data)]
    if len(data) == 2 and len({d.side for d in data}) == 2 and data[0].source == data[1].source:
        factor = frame.value(sympy.Mul(*rest)) if not any(f.atoms(TableEntry, Data, Of) for f in rest) else None
        matching = all(
            matches(a, b) for a, b in zip(*(d.indices for d in sorted(data, key=lambda d: d.side)), strict=True)
        )
        if matching and isinstance(factor, Labelled) and not factor.labels and factor.array >= 0:
            return _distance(frame, data, {b.name for b in bounds}, factor, sign)
    return None


def _distance(frame: Frame, data: list[Data], bounds: set[str], factor: Labelled, sign: int) -> Any:
    one, other = (frame.value(d) for d in sorted(data, key=lambda d: d.side))
    if not bounds <= {*one.labels, *other.labels} or (set(one.labels) ^ set(other.labels)) & bounds:
        return None
    sizes = [frame.size(b) for b in sorted(bounds)]
    if math.prod(sizes) <= _FEW:  # one feature after the other: entry by entry, in the loop of what follows
        axes = [axis_symbol(b) for b in sorted(bounds)]
        places = [dict(zip(axes, map(sympy.Integer, k), strict=True)) for k in itertools.product(*map(range, sizes))]
        pairs = sorted(data, key=lambda d: d.side)
        rule = half_distance if sign > 0 else half_distance_to_opposite
        found = mapped(rule, [frame.value(d.xreplace(k)) for k in places for d in pairs])
    else:
        found = half_squared_distance([one, other], tuple(sorted(bounds)), sign)
    return found if factor.array == 1 else mapped(numpy.multiply, [found, factor])


#: so many features are subtracted one by one; the distance of longer vectors comes from matrix products
_FEW = 16


def half_distance(*pairs: Array) -> Array:
    """½ Σ (x − x′)² of x, x′, y, y′, …"""
    return 0.5 * total(*((x - y) ** 2 for x, y in zip(pairs[::2], pairs[1::2], strict=True)))


def half_distance_to_opposite(*pairs: Array) -> Array:
    """½ Σ (x + x′)² of the same."""
    return 0.5 * total(*((x + y) ** 2 for x, y in zip(pairs[::2], pairs[1::2], strict=True)))


def _picked(frame: Frame, expr: AxisSum, picking: sums.Picking, sign: int) -> Any:
    """Shared taps: the sum of gaps, where a place outside counts as the variable 0."""
    inner = gap(frame, picking.inner, sign)
    if inner is None:
        return None
    if all(_both(picking, symbol) for symbol, _ in picking.reads):  # one lookup an axis: outside both are 0 together
        return sums.taken(frame, picking, inner)
    if len(picking.reads) != 2:
        return None
    (_, one_read), (_, other_read) = picking.reads
    if not _one_variable(one_read, other_read, picking.bounds):
        return None
    shared = [{i.name for i in lookup.free_symbols} & set(picking.bounds) for _, lookup in picking.reads]
    if shared[0] != shared[1]:
        return None if shared[0] & shared[1] or sign < 0 else _pooled(frame, expr, picking, inner)
    (a, left), (b, right) = sorted(picking.reads, key=lambda r: side_of(r[0].name))
    if side_of(a.name) == side_of(b.name):
        return None
    reads = [sums.reading(frame, s.name, x, picking.bounds) for s, x in ((a, left), (b, right))]
    if all((r.places >= 0).all() for r in reads):
        return sums.taken(frame, picking, inner)
    one, other = own(picking.inner, 1), own(picking.inner, 2)
    if one is None or other is None:
        return None
    values = [frame.value(one), frame.value(other)]
    if frame.tables.banded:
        return summed_gaps([inner, *values], reads)
    return mapped(total, [sums.taken(frame, picking, inner), *edges(values, reads)])


def _one_variable(one: Expr, other: Expr, bounds: tuple[str, ...]) -> bool:
    """Whether two inputs are read at the same places of either: distances of others do not add up to that of a sum."""
    if isinstance(one, sums.Lookup) and isinstance(other, sums.Lookup) and one.table == other.table:
        return all(_one_variable(i, j, bounds) for i, j in zip(one.indices, other.indices, strict=True))
    return matches(one, other) or matches(other, one) or {str(one), str(other)} <= set(bounds)


def _pooled(frame: Frame, expr: AxisSum, picking: sums.Picking, inner: Any) -> Any:
    """Sums over as many places on either side: what the places of one input differ from each other is taken off."""
    (a, left), (b, right) = sorted(picking.reads, key=lambda r: side_of(r[0].name))
    reads = [sums.reading(frame, s.name, x, picking.bounds) for s, x in ((a, left), (b, right))]
    alike = side_of(a.name) != side_of(b.name) and own(picking.inner, 1) is not None
    if not alike or any((r.places < 0).any() for r in reads):
        return None
    alone = sided(expr, 1, 1)
    names = {batch: r.labels for batch, r in zip((1, 2), reads, strict=True)}
    values = [sums.taken(frame, picking, inner)]
    for side in (1, 2):
        if frame.tables.rows is not None:
            found = frame.tables.rows.spread(alone, side, names[side])
        else:
            found = relabelled(spread(frame, alone), names[side])
        if found is None:
            return None
        values.append(found)
    frame.tables.subtracts = True
    return mapped(without_spread, values)


def without_spread(inner: Array, one: Array, other: Array) -> Array:
    """A gap of sums less half of what the places of either input differ; what rounding leaves of equal ones is none."""
    found = inner - 0.5 * one - 0.5 * other
    return numpy.where(found > numpy.finfo(found.dtype).eps * (one + other), found, 0.0)


def spread(frame: Frame, expr: Expr) -> Any:
    """Σ Σ of the gaps between the places that a sum over one input reads, by the places where it stands."""
    picking = sums.picked(frame, expr)
    inner = None if picking is None else gap(frame, picking.inner)
    if picking is None or inner is None:
        return None
    found = sums.taken(frame, picking, inner)
    mine = tuple(x for x in found.labels if x.startswith("input ") or side_of(x) == 1)
    return diagonal([found], mine, tuple(second(axis_symbol(x)).name for x in mine if not x.startswith("input ")))


def relabelled(value: Any, axes: tuple[str, ...]) -> Any:
    """The same entries by the running indices of a side."""
    front = tuple(x for x in value.labels if x.startswith("input "))
    return None if value is None else renamed([value], (*front, *axes))


def _both(picking: sums.Picking, symbol: Symbol) -> bool:
    """Whether both inputs are read through one lookup."""
    return all(
        set(leaf.indices[: len(leaf.indices) // 2]) & {symbol}
        and set(leaf.indices[len(leaf.indices) // 2 :]) & {symbol}
        for leaf in picking.inner.atoms(TableEntry)
        if leaf.sides[0] != leaf.sides[1]
    ) and all(symbol in leaf.indices for leaf in picking.inner.atoms(Data))
