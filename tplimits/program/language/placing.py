"""Where the derivative with respect to an entry belongs: the transposes of renaming, selecting and taking.

A value y[φ] that reads x[i(φ)] sends its gradient back to the entries i(φ) of x.  Indices of y that i does not
depend on are summed.  What is left is a *place*: the axes that still run, and the indices of x as functions of
them; running axes are called like those axes of x which they run over.  Selected entries stay selected: no zeros
are stored for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import ProgramError
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, DataIndex, Entry, Kron, Lookup, axis_symbol
from tplimits.program.nodes.stated import IndexTable

if TYPE_CHECKING:
    from tplimits.program.network.growing import Growing
    from tplimits.program.nodes.kinds import Instruction


@dataclass(frozen=True)
class Place:
    """The entries `indices` of an instruction, for every index of `axes`; `kept` are those of the output."""

    axes: tuple[str, ...]
    indices: tuple[Expr, ...]
    kept: tuple[str, ...] = ()

    @property
    def looks_up(self) -> bool:
        """Whether an index is read from a table or from data, so that several may hit one entry, or none."""
        return any(isinstance(i, (Lookup, DataIndex)) for i in self.indices)

    @property
    def by_data(self) -> bool:
        """Whether an index is read from data: which entry it is depends on the input."""
        return any(isinstance(i, DataIndex) for i in self.indices)


def sum_over(growing: Growing, expr: Expr, index: Symbol, axis: str) -> Expr:
    """The sum over one running index; of what does not depend on it, a multiple."""
    if index in expr.free_symbols:
        fresh = growing.running(axis)
        return AxisSum(expr.xreplace({index: fresh}), fresh, Symbol(axis))
    return expr * growing.size(axis)


def placed(
    growing: Growing,
    expr: Expr,
    kept: tuple[str, ...],
    running: Mapping[Symbol, str],
    entry: Entry,
    source: Instruction,
) -> tuple[Expr, Place] | None:
    """The gradient `expr` of one entry of `source`, on the axes of its place; None where there is no entry.

    `running` are its running indices with their axes; `kept` names the axes of the output, which are never summed.
    """
    swap: dict[Expr, Expr] = {}
    indices = [resolved(growing, i) for i in entry.indices]
    if any(i == -1 for i in indices):
        return None
    for index, axis in zip(indices, source.axes, strict=True):
        # a running index that stands alone is an axis of x itself; the second of two that are equal, a diagonal, is no
        # other axis
        if index in running and index not in swap:
            swap[index] = axis_symbol(axis)
    own = tuple(s.name for s in swap.values())
    looked_up = set().union(*(i.free_symbols for i in indices if isinstance(i, (Lookup, DataIndex))))
    stay: list[str] = []
    for index, axis in running.items():
        if index in swap:
            continue
        # what the place does not depend on is summed: many entries of y read the same entry of x
        if index not in looked_up:
            expr = sum_over(growing, expr, index, axis)
            continue
        free = axis not in (*kept, *own, *stay)
        stay.append(axis if free else growing.axis_like(axis, axis))
        swap[index] = axis_symbol(stay[-1])
    ordered = tuple(a for a in source.axes if a in own)
    place = Place((*kept, *stay, *ordered), tuple(i.xreplace(swap) for i in indices), kept)
    return expr.xreplace(swap), place


def resolved(growing: Growing, index: Expr) -> Expr:
    """A look-up at whole numbers as the number it gives."""
    if isinstance(index, Lookup) and all(isinstance(i, sympy.Integer) for i in index.indices):
        return sympy.Integer(growing.tables[index.table].values[tuple(map(int, index.indices))])
    return index


def gathered(growing: Growing, gradient: Entry, place: Place, source: Instruction) -> tuple[Expr, Place] | None:
    """The same gradient with look-ups inverted: for each entry of x the sum over all that read it."""
    plain = {i for i in place.indices if isinstance(i, Symbol)}
    looked_up = set().union(*(i.free_symbols for i in place.indices if isinstance(i, (Lookup, DataIndex))))
    inside = [a for a in place.axes if axis_symbol(a) in looked_up - plain and a not in place.kept]
    running = {axis_symbol(a): growing.running(a) for a in inside}  # an axis of x may have the same name
    left = {running[axis_symbol(a)]: a for a in inside}
    expr, indices = gradient.xreplace(running), [i.xreplace(running) for i in place.indices]
    for number, (index, axis) in enumerate(zip(indices, source.axes, strict=True)):
        if isinstance(index, DataIndex):
            expr, indices[number] = expr * Kron(index, axis_symbol(axis)), axis_symbol(axis)
        if not isinstance(index, Lookup):
            continue
        if not growing.size(axis).is_Integer:
            raise ProgramError(
                f"`{source.name}` is read through a table along `{axis}`, whose size is open; its gradient needs the "
                f"size: .bind({axis}=…)."
            )
        others = set().union(*(i.free_symbols for j, i in enumerate(indices) if j != number))
        # each table by itself: for every entry the list of those that read it, instead of a matrix of zeros and ones
        if left.keys() >= index.free_symbols and not index.free_symbols & others:
            found = _by_reader(growing, expr, index, axis)
            if found is None:
                return None
            expr = found
            left = {s: a for s, a in left.items() if s not in index.free_symbols}
        else:
            expr = expr * _indicator(growing, index, axis)
        indices[number] = axis_symbol(axis)
    for symbol, axis in left.items():
        expr = sum_over(growing, expr, symbol, axis)
    own = {i.name for i in indices if isinstance(i, Symbol)}
    axes = (*place.kept, *(a for a in source.axes if a in own and a not in place.kept))
    return expr, Place(axes, tuple(indices), place.kept)


def _by_reader(growing: Growing, expr: Expr, index: Lookup, axis: str) -> Expr | None:
    """Sum, for each entry, over a list of the indices that read it; lists are filled up with −1."""
    table, size = growing.tables[index.table].values, int(growing.size(axis))
    inside = sorted(index.free_symbols, key=lambda s: s.name)
    lengths = [table.shape[index.indices.index(s)] for s in inside]
    readers: list[list[tuple[int, ...]]] = [[] for _ in range(size)]
    for point in product(*map(range, lengths)):
        at = dict(zip(inside, point, strict=True))
        entry = int(table[tuple(at.get(i, i) for i in index.indices)])
        if entry >= 0:
            readers[entry].append(point)
    most = max(map(len, readers))
    if most == 0:
        return None
    lists = numpy.full((len(inside), size, most), -1, dtype=numpy.int64)
    for entry, points in enumerate(readers):
        for rank, point in enumerate(points):
            lists[:, entry, rank] = point
    if most == 1:
        numbers = [growing.table(IndexTable(one[:, 0].copy(), (axis,))) for one in lists]
        return expr.xreplace({s: Lookup(number, axis_symbol(axis)) for s, number in zip(inside, numbers, strict=True)})
    reader = growing.axis(f"{axis}_reader")
    growing.sizes[reader] = sympy.Integer(most)
    rank = growing.running(reader)
    numbers = [growing.table(IndexTable(one.copy(), (axis, reader))) for one in lists]
    swap = {s: Lookup(number, axis_symbol(axis), rank) for s, number in zip(inside, numbers, strict=True)}
    return AxisSum(expr.xreplace(swap), rank, Symbol(reader))


def _indicator(growing: Growing, index: Lookup, axis: str) -> Expr:
    """1 where a table gives the entry of an axis, and 0 elsewhere."""
    table = growing.tables[index.table]
    last = growing.axis_like(axis, f"{axis}_read") if axis in table.axes else axis
    values = (table.values[..., None] == numpy.arange(int(growing.size(axis)))).astype(numpy.float64)
    return ArrayEntry(growing.array(IndexTable(values, (*table.axes, last))), *index.indices, axis_symbol(axis))
