"""Sums over finite axes in a recursion: entries that index arrays pick, sums of products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import AxisSum, Lookup, axis_symbol, free_indices
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import SECOND, Data, Datum, Of, TableEntry, plain_axis, second
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, contracted, diagonal
from tplimits.regimes.kernels.numbers.tables.places import positions
from tplimits.regimes.kernels.numbers.tables.shifts import Read, summed_entries, together

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tables.frames import Frame


@dataclass(frozen=True)
class Picking:
    """Σ over `bounds` of `inner` at the places that index arrays pick: the array reads (new index, lookup)."""

    inner: Expr
    reads: tuple[tuple[Symbol, Lookup], ...]
    bounds: tuple[str, ...]


def axis_sum(frame: Frame, expr: AxisSum) -> Any:
    """A sum over finite axes as an array."""
    picking = picked(frame, expr)
    if picking is not None:
        return taken(frame, picking, frame.value(picking.inner))
    bounds, body = nest(expr)
    if frame.tables.banded and (found := _apart(frame, expr, bounds)) is not None:
        return found
    # addend by addend: each may be picked, or factor, in its own way
    if isinstance(body, sympy.Add):
        return frame.value(sympy.Add(*(summed(a, expr) for a in body.args)))
    body, outer = _inwards(frame, body, bounds)
    factors = [frame.value(a) for a in _by_input(sympy.Mul.make_args(body))]
    present = {x for f in factors for x in f.labels}
    names = {b.name for b in outer}
    missing = names - present
    # an index that nothing has counts the size of its axis
    times = [Labelled(numpy.asarray(float(numpy.prod([frame.size(x) for x in missing]))))] if missing else []
    return contracted([*factors, *times], frozenset(names & present))


def _inwards(frame: Frame, body: Expr, bounds: Mapping[Symbol, Symbol]) -> tuple[Expr, list[Symbol]]:
    """A product with the sums that some of its factors need alone, where they are sums of picked entries.

    Also the bound indices that are left to sum over.
    """
    outer = list(bounds)
    for bound, axis in bounds.items():
        mine = [f for f in sympy.Mul.make_args(body) if bound in f.free_symbols]
        rest = [f for f in sympy.Mul.make_args(body) if bound not in f.free_symbols]
        inner = AxisSum(sympy.Mul(*mine), bound, axis)
        if mine and any(free_indices(f) for f in rest) and picked(frame, inner) is not None:
            body = sympy.Mul(*rest, inner)
            outer.remove(bound)
    return body, outer


def _apart(frame: Frame, expr: AxisSum, bounds: Mapping[Symbol, Symbol]) -> Any:
    """A pool at equal places, Σ_ab T[A(a, i); A(b, i)]: the pool of either side by itself, at equal places then."""
    swap, places = {}, set()
    for leaf in expr.atoms(TableEntry):
        if len(leaf.indices) == 2 and all(isinstance(i, Lookup) for i in leaf.indices):
            left, right = leaf.indices
            same = free_indices(left) - set(bounds)
            if len(same) == 1 and same == free_indices(right) - set(bounds) and left.free_symbols & set(bounds):
                (place,) = same
                swap[leaf] = leaf.xreplace({right: right.xreplace({place: second(place)})})
                places.add(place)
    if len(places) != 1 or len(swap) != len(expr.atoms(TableEntry)):
        return None
    (place,) = places
    again = expr.xreplace(swap)
    if picked(frame, again) is None:
        return None
    found = axis_sum(frame, again)
    mine = tuple(x for x in found.labels if x != second(place).name)
    return diagonal([found], mine, (second(place).name,)) if place.name == mine[-1] else None


def _by_input(factors: Sequence[Expr]) -> list[Expr]:
    """Factors at places where another one of the same input stands, such as a mask, multiplied into that one: what
    compiled passes sum are products of two arrays."""
    found: list[Expr] = []
    for factor in sorted(factors, key=lambda f: -len(free_indices(f))):
        places = free_indices(factor)
        fitting = [k for k, f in enumerate(found) if places <= free_indices(f) and len(_sides(f) | _sides(factor)) < 2]
        if fitting and places:
            found[fitting[0]] = sympy.Mul(found[fitting[0]], factor)
        else:
            found.append(factor)
    return found


def _sides(expr: Expr) -> set[int]:
    """The inputs that an expression reads."""
    return {s for t in expr.atoms(TableEntry) for s in t.sides} | {d.side for d in expr.atoms(Data, Datum, Of)}


def nest(expr: AxisSum) -> tuple[dict[Symbol, Symbol], Expr]:
    """Bound indices of a nest of sums with their axes, and what is summed."""
    bounds, body = {expr.bound: expr.args[2]}, expr.summand
    while isinstance(body, AxisSum):
        bounds[body.bound] = body.args[2]
        body = body.summand
    return bounds, body


def summed(addend: Expr, template: AxisSum) -> Expr:
    """One addend under all sums of a template."""
    if isinstance(template.summand, AxisSum):
        addend = summed(addend, template.summand)
    return AxisSum(addend, template.bound, template.args[2])


def picked(frame: Frame, expr: AxisSum) -> Picking | None:
    """The sum as one over picked entries, where its bound indices stand in lookups that all terms share."""
    bounds, body = nest(expr)
    if body.has(Datum):  # places that differ from input to input are gathered
        return None
    # of lookups in lookups, as behind an up-sampling, the outer ones: their places are one table
    lookups = sorted((x for x in _outermost(body) if x.free_symbols & set(bounds)), key=str)
    # one lookup inside of another that is summed too: their places move together
    if not lookups or any(a != b and a in found(b, Lookup) for a in lookups for b in lookups):
        return None
    body = sympy.expand_mul(body, deep=False) if isinstance(body, sympy.Mul) and body.has(sympy.Add) else body
    used = set(bounds) & set().union(*(x.free_symbols for x in lookups))
    reads: list[tuple[Symbol, Lookup]] = []
    inner = body
    for lookup in lookups:
        axis = _axis_read(frame, body, lookup)
        if axis is None:
            return None
        marked = any(SECOND in i.name for i in free_indices(lookup) - set(bounds))
        name = axis + SECOND if marked else axis
        taken_names = {i.name for i in free_indices(inner)} | {s.name for s, _ in reads}
        while name in taken_names - {i.name for i in free_indices(lookup)} or name in {s.name for s, _ in reads}:
            name += "′t"
        reads.append((axis_symbol(name), lookup))
    free = [i for x in lookups for i in free_indices(x) - set(bounds)]
    if len(set(free)) < len(free):  # two reads would give one index, as those of rows and columns by one table do
        return None
    inner = body.xreplace({lookup: symbol for symbol, lookup in reads})
    outside = set().union(*(free_indices(x) for x in lookups)) - set(bounds)
    mine = {s for s, _ in reads}
    if free_indices(inner) & used or free_indices(inner) & (outside - mine) or _still(body, mine & outside):
        return None
    for bound, axis in bounds.items():
        if bound not in used:
            inner = AxisSum(inner, bound, axis)
    return Picking(inner, tuple(reads), tuple(sorted(b.name for b in used)))


def _outermost(expr: Expr) -> set[Lookup]:
    """The lookups that stand somewhere in no other one."""
    seen, waiting = set(), [expr]
    outer: set[Lookup] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, Lookup):
            outer.add(part)
        elif part not in seen:
            seen.add(part)
            waiting += part.args
    return outer


def _still(body: Expr, names: set[Symbol]) -> bool:
    """Whether a name given to a picked index also stands outside of lookups."""
    hidden = body.xreplace(dict.fromkeys(body.atoms(Lookup), sympy.S.Zero))
    return bool(free_indices(hidden) & names)


def _axis_read(frame: Frame, body: Expr, lookup: Lookup) -> str | None:
    """The axis whose places a lookup gives; None where a term does not vanish outside."""
    axis = None
    for addend in sympy.Add.make_args(body):
        found = None
        for factor in sympy.Mul.make_args(addend):
            base = factor.base if isinstance(factor, sympy.Pow) and factor.exp.is_positive else factor
            while isinstance(base, AxisSum):
                base = base.summand
            if isinstance(base, (TableEntry, Data)) and lookup in base.indices:
                found = _axes(frame, base)[base.indices.index(lookup)]
        if found is None:
            return None
        axis = axis or plain_axis(found)
    return axis


def _axes(frame: Frame, leaf: TableEntry | Data) -> tuple[str, ...]:
    if isinstance(leaf, Data):
        return tuple(frame.program[leaf.source].axes)
    table = frame.tables.derivation.recursion.tables[leaf.table]
    return (*table.left, *table.right)


def taken(frame: Frame, picking: Picking, value: Any) -> Any:
    """Entries of an array summed: reads that share a bound index at once, others one after another."""
    own = [frozenset(i.name for i in lookup.free_symbols) & set(picking.bounds) for _, lookup in picking.reads]
    for group in together(own):
        names = sorted(set().union(*(own[k] for k in group)))
        reads = tuple(reading(frame, s.name, lookup, names) for s, lookup in (picking.reads[k] for k in group))
        missing = [r for r in reads if r.label not in value.labels]
        if missing:
            # an array that does not depend on the place still loses the taps that fall outside
            value = _with_labels(frame, value, missing)
        value = summed_entries([value], reads)
    return value


def _with_labels(frame: Frame, value: Any, missing: list[Read]) -> Any:
    ones = [Labelled(numpy.ones(frame.size(r.label)), (r.label,)) for r in missing]
    return contracted([value, *ones], frozenset())


def reading(frame: Frame, label: str, lookup: Lookup, bounds: Any) -> Read:
    """A lookup as places over (bounds, new labels)."""
    places, labels = positions(frame, lookup)
    mine = list(bounds)
    rest = tuple(x for x in labels if x not in mine)
    sizes = {x: frame.size(x) for x in (*mine, *rest)}
    array = numpy.broadcast_to(
        Labelled(numpy.asarray(places), labels).at([*mine, *rest]), [sizes[x] for x in (*mine, *rest)]
    )
    flat = array.reshape(-1, *(sizes[x] for x in rest))
    return Read(label, flat, rest)
