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
from tplimits.regimes.kernels.numbers.passes import Dims, Gather, Pass, Passes, Picks, Reduction
from tplimits.regimes.kernels.numbers.shifts import moved

WHOLE, POINTER = ir.IntType(64), ir.PointerType()
#: taps up to which a sum of picked entries is written out
_WRITTEN_OUT = 32
#: places along two axes whose sums are taken together, so that what is read serves several
_AT_ONCE = 4, 2
#: what stands in the table of whole numbers before the strides: first and last row, columns, whether above the diagonal
FIRST, LAST, COLUMNS, TRIANGLE, HEAD = range(5)


@dataclass(frozen=True)
class Axis:
    """How places along an axis are stored: on a grid with a border on all sides where its taps move a grid, else in a
    line with one cell behind it.  Nothing but zero is ever in a border."""

    size: int
    #: rows and columns of the grid, and how wide its border is above and below, left and right
    shape: tuple[int, int]
    border: tuple[int, int] = (0, 0)

    @property
    def is_grid(self) -> bool:
        return self.border != (0, 0)

    @property
    def width(self) -> int:
        """Cells of a row."""
        return self.shape[1] + 2 * self.border[1]

    @property
    def extent(self) -> int:
        """All cells."""
        return self.width * (self.shape[0] + 2 * self.border[0]) if self.is_grid else self.size + 1

    def cells(self, places: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
        """Where places are, and what is outside."""
        if not self.is_grid:
            return numpy.where(places < 0, self.size, places)
        y, x = numpy.divmod(places, self.shape[1])
        return numpy.where(places < 0, 0, (y + self.border[0]) * self.width + x + self.border[1])

    def distances(self, places: NDArray[numpy.int64]) -> NDArray[numpy.int64] | None:
        """Of each tap, where it moves all places alike."""
        found = moved(places, self.size) if self.is_grid and places.shape[1] == self.size else None
        if found is None or found[3] != self.shape[1]:
            return None
        order, down, across, _ = found
        if max(abs(down)) > self.border[0] or max(abs(across)) > self.border[1]:
            return None
        distances = numpy.empty(len(places), numpy.int64)
        distances[order] = down * self.width + across
        return distances


def axes_of(passes: Passes) -> dict[int, Axis]:
    """The axes of each size."""
    found: dict[int, Axis] = {}
    picks = [p for one in passes.passes for g in one.gathers.values() for p in g.at if isinstance(p, Picks)]
    for pick in picks:
        size = pick.places.shape[1]
        move = moved(pick.places, size) if (pick.places.shape[0] > 1 and size > 1) else None
        if move is None or int(pick.places.max()) >= size:
            continue
        _, down, across, width = move
        shape, border = (size // width, width), (int(max(abs(down))), int(max(abs(across))))
        known = found.get(size, Axis(size, shape, border))
        if known.shape == shape:
            found[size] = Axis(size, shape, tuple(map(max, known.border, border)))  # type: ignore[arg-type]
    return found


@dataclass(frozen=True)
class Kept:
    """An array of the passes: where it begins in the room of a thread, and its axes."""

    start: int
    axes: tuple[Axis, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(a.extent for a in self.axes)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.extents[k + 1 :]) for k in range(len(self.extents)))


@dataclass(eq=False)
class Lanes:
    """The code of passes; `count` lanes of single or double precision.

    Arrays that are given or asked for (`outer`, steps in order, results and flags last) go by address; of pairs with
    the distances between places and between rows.
    """

    passes: Passes
    count: int
    single: bool
    outer: list[tuple[str, int]] = field(default_factory=list)
    tables: list[NDArray[numpy.int64]] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    room: int = 0

    def __post_init__(self) -> None:
        passes = self.passes
        element = ir.FloatType() if self.single else ir.DoubleType()
        self.element, self.vector = element, ir.VectorType(element, self.count)
        self.width = 4 if self.single else 8
        self.axes = axes_of(passes)
        self._place_arrays()
        given = [n for p in passes.passes for n, _ in p.reads if self._is_given(n)]
        summed = [n for p in passes.passes for r in p.reductions.values() for n, _ in r.factors if self._is_given(n)]
        self.outer = [("in", n) for n in dict.fromkeys([*given, *summed])]
        self.outer += [("out", n) for n in sorted(passes.results)]
        self.outer += [("flag", n) for n in dict.fromkeys(passes.flags)]
        self.rows = {}
        for n in (n for kind, n in self.outer if kind == "in" and self.is_row(n)):
            self.rows[n] = self.room
            self.room += -(-math.prod(passes.sizes_of(n)) // self.count)
        self.module = ir.Module("lanes")
        kind = ir.FunctionType(WHOLE, [POINTER, POINTER, POINTER])
        self.function = ir.Function(self.module, kind, "run")
        self._write()

    def _is_given(self, n: int) -> bool:
        return n not in self.passes.inside

    def is_row(self, n: int) -> bool:
        """Whether an array is one of row inputs alone."""
        inputs = self.passes.inputs
        return len(inputs) == 2 and inputs[0] in self.passes.labels[n] and inputs[1] not in self.passes.labels[n]

    def is_pairs(self, n: int) -> bool:
        """Whether an array is one of pairs of inputs."""
        return len(self.passes.inputs) == 2 and set(self.passes.inputs) <= set(self.passes.labels[n])

    def _place_arrays(self) -> None:
        """Room of arrays, used again after the last pass that reads one."""
        passes, last = self.passes, {}
        for number, one in enumerate(passes.passes):
            for n in self._read_by(one):
                last[n] = number
        free: dict[tuple[Axis, ...], list[int]] = {}
        for number, one in enumerate(passes.passes):
            for n, _ in one.results:
                if n in last and n not in self.kept:
                    axes = tuple(map(self.axis, passes.sizes_of(n)))
                    if not free.get(axes):
                        free.setdefault(axes, []).append(self.room)
                        self.room += math.prod(a.extent for a in axes)
                    self.kept[n] = Kept(free[axes].pop(), axes)
            for n, end in last.items():
                if end == number and n in self.kept:
                    free.setdefault(self.kept[n].axes, []).append(self.kept[n].start)

    def axis(self, size: int) -> Axis:
        """How an axis is stored."""
        return self.axes.get(size, Axis(size, (1, size)))

    def _read_by(self, one: Pass) -> Iterator[int]:
        passes = self.passes
        yield from (n for n, _ in one.reads if n in passes.inside)
        yield from (g.operand for g in one.gathers.values())
        for r in one.reductions.values():
            yield from (n for n, _ in r.factors if n in passes.inside)

    # -- code ---------------------------------------------------------------------------------

    def _write(self) -> None:
        b = self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        addresses, numbers, scratch = self.function.args
        self.scratch = scratch
        self.bases, self.strides = {}, {}
        for k, key in enumerate(self.outer):
            self.bases[key] = b.load(b.gep(addresses, [WHOLE(k)], source_etype=POINTER), typ=POINTER)
            self.strides[key] = tuple(self._number(numbers, HEAD + 2 * k + r) for r in (0, 1))
        self.addresses = addresses
        self.known_tables: dict[Any, Any] = {}
        first, last, columns, triangle = (self._number(numbers, k) for k in (FIRST, LAST, COLUMNS, TRIANGLE))
        self.formulas = Formulas(b, self.module, self.vector)
        before = b.block
        row, rows = self._begin(first, before)
        for n in self.rows:
            self._take_out(n, row)
        start = b.and_(b.mul(triangle, b.add(row, WHOLE(1))), WHOLE(-self.count))
        column, blocks = self._begin(start, b.block, columns)
        for one in self.passes.passes:
            self._pass(one, row, column)
        self._end(column, blocks, self.count, columns)
        self._end(row, rows, 1, last)
        b.ret(WHOLE(0))

    def _take_out(self, n: int, row: Any) -> None:
        """The numbers of one row input, one after another."""
        b, places = self.builder, math.prod(self.passes.sizes_of(n))
        start = b.add(b.mul(b.and_(row, WHOLE(-self.count)), WHOLE(places)), b.and_(row, WHOLE(self.count - 1)))
        target = b.gep(self.scratch, [WHOLE(self.rows[n])], source_etype=self.vector)
        with self._loop(places) as place:
            source = b.gep(
                self.bases["in", n], [b.add(start, b.mul(place, WHOLE(self.count)))], source_etype=self.element
            )
            one = b.load(source, typ=self.element, align=self.width)
            b.store(one, b.gep(target, [place], source_etype=self.element), align=self.width)

    def _number(self, numbers: Any, k: int) -> Any:
        return self.builder.load(self.builder.gep(numbers, [WHOLE(k)], source_etype=WHOLE), typ=WHOLE)

    def _begin(self, start: Any, before: Any, limit: Any = None) -> tuple[Any, Any]:
        """A loop from `start`; with a limit it may have no round at all."""
        b = self.builder
        head = self.function.append_basic_block()
        after = self.function.append_basic_block() if limit is not None else None
        if after is not None:
            b.cbranch(b.icmp_signed("<", start, limit), head, after)
        else:
            b.branch(head)
        b.position_at_end(head)
        index = b.phi(WHOLE)
        index.add_incoming(start, before)
        return index, (head, after)

    def _end(self, index: Any, blocks: Any, step: int, limit: Any) -> None:
        b, (head, after) = self.builder, blocks
        following = b.add(index, WHOLE(step))
        index.add_incoming(following, b.block)
        after = after or self.function.append_basic_block()
        b.cbranch(b.icmp_signed("<", following, limit), head, after)
        b.position_at_end(after)

    @contextmanager
    def _loop(self, count: int) -> Iterator[Any]:
        if count == 1:
            yield WHOLE(0)
            return
        index, blocks = self._begin(WHOLE(0), self.builder.block)
        yield index
        self._end(index, blocks, 1, WHOLE(count))

    @contextmanager
    def _along(self, dim: int, size: int, most: int = 1) -> Iterator[list[dict[Any, Any]]]:
        """A loop over the places of an axis, up to so many at once: their numbers, and their cells."""
        axis, b = self.axis(size), self.builder
        rows, columns = axis.shape if axis.is_grid else (1, size)
        at_once = max(k for k in range(1, most + 1) if columns % k == 0)
        with self._loop(rows) as y:
            place, cell = b.mul(y, WHOLE(columns)), b.mul(b.add(y, WHOLE(axis.border[0])), WHOLE(axis.width))
            cell = b.add(cell, WHOLE(axis.border[1]))
            with self._loop(columns // at_once) as index:
                xs = [b.add(b.mul(index, WHOLE(at_once)), WHOLE(k)) for k in range(at_once)]
                yield [{dim: b.add(place, x), ("cell", dim): b.add(cell, x)} for x in xs]

    def _pass(self, one: Pass, row: Any, column: Any) -> None:
        front = len(self.passes.inputs)
        indices: dict[Any, Any] = {front - 1: column}
        if front == 2:
            indices[0] = row
        seen = {n: self._cell() for n, _ in one.flags}
        self._nest(one, indices, list(one.sizes), seen)
        for n, cell in seen.items():
            place = self._outer_address(("flag", n), tuple(range(front)), indices)
            self.builder.store(self.builder.load(cell, typ=self.vector), place, align=self.width)

    def _nest(self, one: Pass, indices: dict[Any, Any], sizes: list[int], seen: Mapping[int, Any]) -> None:
        together = sizes if one.reductions and len(sizes) <= 2 else []
        if sizes and not together:
            with self._along(self._dim(one, sizes), sizes[0]) as (found,):
                self._nest(one, {**indices, **found}, sizes[1:], seen)
        elif len(together) == 2:
            first, second = _AT_ONCE
            with (
                self._along(self._dim(one, sizes), sizes[0], first) as rows,
                self._along(self._dim(one, sizes[1:]), sizes[1], second) as columns,
            ):
                self._points(one, [{**indices, **r, **c} for r in rows for c in columns], seen)
        elif together:
            with self._along(self._dim(one, sizes), sizes[0], math.prod(_AT_ONCE)) as several:
                self._points(one, [{**indices, **found} for found in several], seen)
        else:
            self._points(one, [indices], seen)

    def _dim(self, one: Pass, sizes: Sequence[int]) -> int:
        return len(self.passes.inputs) + len(one.sizes) - len(sizes)

    def _points(self, one: Pass, points: Sequence[dict[Any, Any]], seen: Mapping[int, Any]) -> None:
        """Everything at some places: their sums together, as many chains of additions."""
        sums = {name: self._reduced(one, reduction, points) for name, reduction in one.reductions.items()}
        for k, indices in enumerate(points):
            self._point(one, indices, {name: values[k] for name, values in sums.items()}, seen)

    def _point(self, one: Pass, indices: dict[Any, Any], names: dict[str, Any], seen: Mapping[int, Any]) -> None:
        b = self.builder
        offsets: dict[Any, Any] = {}
        for (n, dims), name in one.reads.items():
            names[name] = self._read(n, dims, indices)
        for name, gather in one.gathers.items():
            names[name] = self._gathered(gather, indices, one, offsets)
        for name, text in one.assignments:
            names[name] = self.formulas.value(text, names)
        everything = tuple(range(len(self.passes.inputs) + len(one.sizes)))
        for n, text in one.results:
            value, dims = self.formulas.value(text, names), self.passes.front(n, everything)
            if n in self.kept:
                b.store(value, self._kept_address(n, dims, indices), align=self.width * self.count)
            if n in self.passes.results:
                b.store(value, self._outer_address(("out", n), dims, indices), align=self.width)
        for n, text in one.flags:
            met = b.select(self.formulas.value(text, names), self.formulas.constant(1.0), self.formulas.constant(0.0))
            known = b.load(seen[n], typ=self.vector)
            b.store(self.formulas.arithmetic.add(met, known), seen[n])

    def _cell(self) -> Any:
        """A vector of its own, zero."""
        with self.builder.goto_entry_block():
            cell = self.builder.alloca(self.vector)
        self.builder.store(self.formulas.constant(0.0), cell)
        return cell

    # -- arrays -------------------------------------------------------------------------------

    def _read(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        if not self._is_given(n):
            place = self._kept_address(n, dims, indices)
            return self.builder.load(place, typ=self.vector, align=self.width * self.count)
        place = self._outer_address(("in", n), dims, indices)
        if len(self.passes.inputs) - 1 in dims:
            return self.builder.load(place, typ=self.vector, align=self.width)
        one = self.builder.load(place, typ=self.element, align=self.width)
        first = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), one, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.count), [0] * self.count)
        return self.builder.shuffle_vector(first, first, zeros)

    def _outer_address(self, key: tuple[str, int], dims: Dims, indices: Mapping[Any, Any]) -> Any:
        """Of a given or asked array: of pairs [places][rows][columns], of one input [block][places][lanes]."""
        b, inputs, n = self.builder, self.passes.inputs, key[1]
        sizes = self.passes.sizes_of(n) if key[0] != "flag" else ()
        total: Any = WHOLE(0)
        for size, dim in zip(sizes, (d for d in dims if d >= len(inputs)), strict=True):
            total = b.add(b.mul(total, WHOLE(size)), indices[dim])
        lane = indices[len(inputs) - 1]
        if key[0] == "in" and self.is_row(n):
            base = b.gep(self.scratch, [WHOLE(self.rows[n])], source_etype=self.vector)
            return b.gep(base, [total], source_etype=self.element)
        if len(inputs) == 2 and (key[0] == "flag" or self.is_pairs(n)):
            places, rows = self.strides[key]
            total = b.add(b.mul(total, places), b.add(b.mul(indices[0], rows), lane))
        elif len(inputs) - 1 in dims:
            total = b.add(b.mul(lane, WHOLE(math.prod(sizes))), b.mul(total, WHOLE(self.count)))
        return b.gep(self.bases[key], [total], source_etype=self.element)

    def _kept_address(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        b, kept = self.builder, self.kept[n]
        total: Any = WHOLE(kept.start)
        inner = [d for d in dims if d >= len(self.passes.inputs)]
        for stride, dim in zip(kept.strides, inner, strict=True):
            total = b.add(total, b.mul(indices["cell", dim], WHOLE(stride)))
        return b.gep(self.scratch, [total], source_etype=self.vector)

    def _gathered(self, gather: Gather, indices: Mapping[Any, Any], one: Pass, offsets: dict[Any, Any]) -> Any:
        b, kept, n = self.builder, self.kept[gather.operand], gather.operand
        labels = self.passes.labels[n]
        axes = [p for p, x in zip(gather.at, labels, strict=True) if x not in self.passes.inputs]
        start: Any = WHOLE(kept.start)
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
                place = self.builder.gep(self.addresses, [WHOLE(number)], source_etype=POINTER)
                self.known_tables[key] = self.builder.load(place, typ=POINTER)
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
                values = [self._read(n, dims, indices) for n, dims in reduction.factors]
                product = values[0]
                for value in values[1:]:
                    product = arithmetic.multiply(product, value)
                b.store(arithmetic.add(b.load(cell, typ=self.vector), product), cell)

        level(points, reduction.sizes)
        return [b.load(cell, typ=self.vector) for cell in cells]
