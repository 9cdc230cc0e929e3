"""Passes as one compiled function over pairs of inputs: a row input against blocks of column inputs, one a lane.

An array that stays from pass to pass is [places][lanes], small enough to stay in the cache, with one place more along
each axis for what index arrays find outside; nothing writes there after it was set to zero.  What depends on one input
is [block of inputs][places][lanes]: of columns a vector, of a row one number, taken out once for all its blocks.  So
any index array is a list of distances to add, and every entry of every pass is arithmetic on vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy
from llvmlite import ir
from numpy.typing import NDArray

from tplimits.numbers.loops.formulas import Formulas
from tplimits.regimes.kernels.numbers.passes.cells import Axis, Window, window
from tplimits.regimes.kernels.numbers.passes.forms import Gather, Pass, Picks, Reduction
from tplimits.regimes.kernels.numbers.passes.memory import POINTER, WHOLE
from tplimits.regimes.kernels.numbers.passes.repeats import Repeats, runs
from tplimits.regimes.kernels.numbers.passes.walks import Sum
from tplimits.regimes.kernels.numbers.tables.shifts import moved

#: taps up to which a sum of picked entries is written out
_WRITTEN_OUT = 32
#: places along two axes whose sums are taken together, so that what is read serves several
_AT_ONCE = 4, 2
#: what stands in the table of whole numbers before the strides: first and last row, columns, whether above the diagonal
FIRST, LAST, COLUMNS, TRIANGLE, HEAD = range(5)


@dataclass(eq=False)
class Lanes(Repeats):
    """The code of passes."""

    rewritten = True
    #: where it is counted how many flags are met
    met: Any = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.module = ir.Module("lanes")
        kind = ir.FunctionType(WHOLE, [POINTER, POINTER, POINTER])
        self.function = ir.Function(self.module, kind, "run")
        self._write()

    def _write(self) -> None:
        first, last, columns, triangle = self._opened()
        b = self.builder
        before = b.block
        row, rows = self._begin(first, before)
        final = b.sub(last, WHOLE(1))
        several = [row] + [self._least(b.add(row, WHOLE(k)), final) for k in range(1, self.abreast)]
        for k, one in enumerate(several):
            self._take_out(one, k)
        start = b.and_(b.mul(triangle, b.add(row, WHOLE(1))), WHOLE(-self.count))
        column, blocks = self._begin(start, b.block, columns)
        with self._watched(several, column):
            for run in runs(self):
                with self._repeated(run):
                    self._pass(run.passes[0], several, column)
        self._end(column, blocks, self.count, columns)
        self._end(row, rows, self.abreast, last)
        b.ret(WHOLE(0))

    def _opened(self) -> list[Any]:
        """Begin the function: where everything lies, and the whole numbers it is given."""
        b = self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        addresses, numbers, scratch = self.function.args
        self.scratch = scratch
        self.addresses = addresses
        for k, key in enumerate(self.outer):
            if k >= len(self.rows):
                self.bases[key] = self._address_of(WHOLE(k))
            if self.has_strides(key):
                self.strides[key] = (self._number(numbers, HEAD + 2 * k), self._number(numbers, HEAD + 2 * k + 1))
        self.known_tables: dict[Any, Any] = {}
        self.formulas = Formulas(b, self.module, self.vector)
        return [self._number(numbers, k) for k in (FIRST, LAST, COLUMNS, TRIANGLE)]

    def _least(self, one: Any, other: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", one, other), one, other)

    def _number(self, numbers: Any, k: int) -> Any:
        return self.builder.load(self.builder.gep(numbers, [WHOLE(k)], source_etype=WHOLE), typ=WHOLE)

    @contextmanager
    def _watched(self, rows: Sequence[Any], column: Any) -> Iterator[None]:
        """What is met by flags within, stored behind it."""
        self.met = self._cell()
        yield
        if self.passes.flags:
            front = len(self.passes.inputs)
            indices = {front - 1: column, "rows": rows} | ({0: rows[0]} if front == 2 else {})
            self.put(self.builder.load(self.met, typ=self.vector), self.outer[-1], tuple(range(front)), indices)

    def _pass(self, one: Pass, rows: Sequence[Any], column: Any) -> None:
        front = len(self.passes.inputs)
        indices: dict[Any, Any] = {front - 1: column, "rows": rows}
        if front == 2:
            indices[0] = rows[0]
        self._nest(one, indices, list(one.sizes))

    def _nest(self, one: Pass, indices: dict[Any, Any], sizes: list[int]) -> None:
        together = sizes if one.reductions and len(sizes) <= 2 else []
        if len(one.sizes) == len(sizes) == 1 and not together and self._windows(one):
            self._by_rows(one, indices)
        elif sizes and not together:
            with self._along(self._dim(one, sizes), sizes[0]) as (found,):
                self._nest(one, {**indices, **found}, sizes[1:])
        elif len(together) == 2:
            first, second = _AT_ONCE
            with (
                self._along(self._dim(one, sizes), sizes[0], first) as rows,
                self._along(self._dim(one, sizes[1:]), sizes[1], second) as columns,
            ):
                self._points(one, [{**indices, **r, **c} for r in rows for c in columns])
        elif together:
            with self._along(self._dim(one, sizes), sizes[0], math.prod(_AT_ONCE)) as several:
                self._points(one, [{**indices, **found} for found in several])
        else:
            self._points(one, [indices])

    def _by_rows(self, one: Pass, indices: dict[Any, Any]) -> None:
        """A pass over the places of a grid, row by row: its sums over taps take each column once."""
        b, axis, dim = self.builder, self.axis(one.sizes[0]), len(self.passes.inputs)
        with self._loop(axis.shape[0]) as y:
            place = b.mul(y, WHOLE(axis.shape[1]))
            cell = b.add(b.mul(b.add(y, WHOLE(axis.border[0])), WHOLE(axis.width)), WHOLE(axis.border[1]))
            sums = {}
            for name, found in self._windows(one).items():
                n = one.gathers[name].operand
                start, first = (0, b.add(cell, self.moved[n])) if n in self.moved else (self.kept[n].start, cell)
                sums[name] = Sum(start, axis.width, found, first)
            with self._walk(WHOLE(axis.shape[1]), sums) as (x, names):
                where = {dim: b.add(place, x), ("cell", dim): b.add(cell, x)}
                self._point(one, {**indices, **where}, names)

    def _windows(self, one: Pass) -> dict[str, Window]:
        """The gathers of a pass over one axis that sum some rows and columns about each place."""
        found = {}
        for name, gather in one.gathers.items():
            picks = [p for p in gather.at if isinstance(p, Picks)]
            axes = self.kept[gather.operand].axes if gather.operand in self.kept else ()
            if len(picks) == len(axes) == 1 and axes[0].is_grid and picks[0].dims == (len(self.passes.inputs),):
                move = moved(picks[0].places, axes[0].size) if picks[0].places.shape[1] == one.sizes[0] else None
                inside = move is not None and self._distances(picks[0], axes[0], one) is not None
                taken = window(move[1].tolist(), move[2].tolist()) if move is not None and inside else None
                if taken is not None and len(taken.columns) > 1:
                    found[name] = taken
        return found

    def _dim(self, one: Pass, sizes: Sequence[int]) -> int:
        return len(self.passes.inputs) + len(one.sizes) - len(sizes)

    def _points(self, one: Pass, points: Sequence[dict[Any, Any]]) -> None:
        """Everything at some places: their sums together, as many chains of additions, then one place at a time."""
        sums = {name: self._reduced(one, reduction, points) for name, reduction in one.reductions.items()}
        if len(points) == 1:
            self._point(one, points[0], {name: values[0] for name, values in sums.items()})
            return
        b = self.builder
        moved = [k for k in points[0] if points[0][k] is not points[-1][k]]
        with b.goto_entry_block():
            found = {name: b.alloca(self.vector, len(points)) for name in sums}
            places = {k: b.alloca(WHOLE, len(points)) for k in moved}
        for number, indices in enumerate(points):
            for name, values in sums.items():
                b.store(values[number], b.gep(found[name], [WHOLE(number)], source_etype=self.vector))
            for k in moved:
                b.store(indices[k], b.gep(places[k], [WHOLE(number)], source_etype=WHOLE))
        with self._loop(len(points)) as number:
            here = {k: b.load(b.gep(places[k], [number], source_etype=WHOLE), typ=WHOLE) for k in moved}
            names = {
                name: b.load(b.gep(at, [number], source_etype=self.vector), typ=self.vector)
                for name, at in found.items()
            }
            self._point(one, {**points[0], **here}, names)

    def _point(self, one: Pass, indices: dict[Any, Any], names: dict[str, Any]) -> None:
        b = self.builder
        offsets: dict[Any, Any] = {}
        for (n, dims), name in one.reads.items():
            names[name] = self.read(n, dims, indices)
        for name, gather in one.gathers.items():
            if name not in names:
                names[name] = self._gathered(gather, indices, one, offsets)
        for name, text in one.assignments:
            names[name] = self.formulas.value(text, names)
        everything = tuple(range(len(self.passes.inputs) + len(one.sizes)))
        for n, text in one.results:
            value, dims = self.formulas.value(text, names), self.passes.front(n, everything)
            if n in self.kept:
                b.store(value, self.kept_address(n, dims, indices), align=self.width * self.count)
            if n in self.passes.results:
                self.put(value, ("out", n), dims, indices)
        for text in one.flags:
            met = b.select(self.formulas.value(text, names), self.formulas.constant(1.0), self.formulas.constant(0.0))
            b.store(self.formulas.arithmetic.add(met, b.load(self.met, typ=self.vector)), self.met)

    def _gathered(self, gather: Gather, indices: Mapping[Any, Any], one: Pass, offsets: dict[Any, Any]) -> Any:
        b, kept, n = self.builder, self.kept[gather.operand], gather.operand
        labels = self.passes.labels[n]
        axes = [p for p, x in zip(gather.at, labels, strict=True) if x not in self.passes.inputs]
        start = self.start_of(n)
        picks: list[tuple[Any, Any, Picks]] = []
        shifts = numpy.zeros(gather.taps, dtype=numpy.int64)
        for place, stride, axis in zip(axes, kept.strides, kept.axes, strict=True):
            if not isinstance(place, Picks):
                start = b.add(start, b.mul(indices["cell", place], WHOLE(stride)))
                continue
            distances = self._distances(place, axis, one)
            if distances is None:
                picks.append((*self._picked(place, stride, axis, indices, one), place))
            else:
                start = b.add(start, b.mul(indices["cell", place.dims[0]], WHOLE(stride)))
                shifts += distances * stride
        base = b.gep(self.scratch, [start], source_etype=self.vector)

        def tap(t: Any) -> Any:
            distance: Any = WHOLE(int(shifts[t.constant])) if isinstance(t, ir.Constant) else None
            for table, at, pick in picks:
                key = (table, pick.dims, t.constant if isinstance(t, ir.Constant) else t)
                if key not in offsets:
                    offsets[key] = b.load(b.gep(table, [b.add(at, t)], source_etype=WHOLE), typ=WHOLE)
                distance = offsets[key] if distance is None else b.add(distance, offsets[key])
            place = b.gep(base, [distance], source_etype=self.vector)
            return b.load(place, typ=self.vector, align=self.width * self.count)

        if gather.taps <= _WRITTEN_OUT or shifts.any():
            total = tap(WHOLE(0))
            for t in range(1, gather.taps):
                total = self.formulas.arithmetic.add(total, tap(WHOLE(t)))
            return total
        cell = self._cell()
        with self._loop(gather.taps) as t:
            b.store(self.formulas.arithmetic.add(b.load(cell, typ=self.vector), tap(t)), cell)
        return b.load(cell, typ=self.vector)

    def _distances(self, picks: Picks, axis: Axis, one: Pass) -> NDArray[numpy.int64] | None:
        """Of taps that move the whole axis of a loop."""
        if len(picks.dims) != 1 or one.sizes[picks.dims[0] - len(self.passes.inputs)] != axis.size:
            return None
        return axis.distances(picks.places)

    def _picked(self, picks: Picks, stride: int, axis: Axis, indices: Mapping[Any, Any], one: Pass) -> tuple[Any, Any]:
        """A table of distances, taps of a place together, and where those of this place begin."""
        key = (picks.places.tobytes(), picks.places.shape, stride, axis)
        if key not in self.known_tables:
            places = axis.cells(picks.places) * stride
            number = len(self.outer) + len(self.tables)
            self.tables.append(numpy.ascontiguousarray(places.T, dtype=numpy.int64))
            with self.builder.goto_entry_block():
                self.known_tables[key] = self._address_of(WHOLE(number))
        b, total = self.builder, WHOLE(0)
        for dim in picks.dims:
            total = b.add(b.mul(total, WHOLE(one.sizes[dim - len(self.passes.inputs)])), indices[dim])
        return self.known_tables[key], b.mul(total, WHOLE(len(picks.places)))

    def _reduced(self, one: Pass, reduction: Reduction, points: Sequence[Mapping[Any, Any]]) -> list[Any]:
        """A sum at some places together."""
        b, arithmetic = self.builder, self.formulas.arithmetic
        cells = [self._cell() for _ in points]

        def level(known: Sequence[Mapping[Any, Any]], sizes: Sequence[int]) -> None:
            if sizes:
                dim = len(self.passes.inputs) + len(one.sizes) + len(reduction.sizes) - len(sizes)
                with self._along(dim, sizes[0]) as (found,):
                    level([{**k, **found} for k in known], sizes[1:])
                return
            for cell, indices in zip(cells, known, strict=True):
                values = [self.read(n, dims, indices) for n, dims in reduction.factors]
                product = values[0]
                for value in values[1:]:
                    product = arithmetic.multiply(product, value)
                b.store(arithmetic.add(b.load(cell, typ=self.vector), product), cell)

        level(points, reduction.sizes)
        return [b.load(cell, typ=self.vector) for cell in cells]
