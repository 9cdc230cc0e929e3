"""Passes as one compiled function over pairs of inputs: a row input against blocks of column inputs, one a lane.

An array that stays from pass to pass is [places][lanes], small enough to stay in the cache, with one place more along
each axis for what index arrays find outside; nothing writes there after it was set to zero.  What depends on one input
is [places][inputs]: of columns a vector, of the row one number.  So any index array is a list of distances to add, and
every entry of every pass is arithmetic on vectors.
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

WHOLE, POINTER = ir.IntType(64), ir.PointerType()
#: taps up to which a sum of picked entries is written out
_WRITTEN_OUT = 32
#: what stands in the table of whole numbers before the strides: first and last row, columns, whether above the diagonal
FIRST, LAST, COLUMNS, TRIANGLE, HEAD = range(5)


@dataclass(frozen=True)
class Kept:
    """An array of the passes: where it begins in the room of a thread, and how many places it has along each axis."""

    start: int
    extents: tuple[int, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.extents[k + 1 :]) for k in range(len(self.extents)))


@dataclass(eq=False)
class Lanes:
    """The code of passes; `count` lanes of single or double precision.

    Arrays that are given or asked for (`outer`, steps in order, results and flags last) go by address, two strides each:
    between places, between rows.
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
        self._place_arrays()
        given = [n for p in passes.passes for n, _ in p.reads if self._is_given(n)]
        summed = [n for p in passes.passes for r in p.reductions.values() for n, _ in r.factors if self._is_given(n)]
        self.outer = [("in", n) for n in dict.fromkeys([*given, *summed])]
        self.outer += [("out", n) for n in sorted(passes.results)]
        self.outer += [("flag", n) for n in dict.fromkeys(passes.flags)]
        self.module = ir.Module("lanes")
        kind = ir.FunctionType(WHOLE, [POINTER, POINTER, POINTER])
        self.function = ir.Function(self.module, kind, "run")
        self._write()

    def _is_given(self, n: int) -> bool:
        return n not in self.passes.inside

    def _place_arrays(self) -> None:
        """Room of arrays, used again after the last pass that reads one."""
        passes, last = self.passes, {}
        for number, one in enumerate(passes.passes):
            for n in self._read_by(one):
                last[n] = number
        free: dict[tuple[int, ...], list[int]] = {}
        for number, one in enumerate(passes.passes):
            for n, _ in one.results:
                if n in last and n not in self.kept:
                    extents = tuple(s + 1 for s in passes.sizes_of(n))
                    if not free.get(extents):
                        free.setdefault(extents, []).append(self.room)
                        self.room += math.prod(extents)
                    self.kept[n] = Kept(free[extents].pop(), extents)
            for n, end in last.items():
                if end == number and n in self.kept:
                    free.setdefault(self.kept[n].extents, []).append(self.kept[n].start)

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
        self.addresses, self.known_tables = addresses, {}
        first, last, columns, triangle = (self._number(numbers, k) for k in (FIRST, LAST, COLUMNS, TRIANGLE))
        self.formulas = Formulas(b, self.module, self.vector)
        before = b.block
        row, rows = self._begin(first, before)
        start = b.mul(triangle, b.add(row, WHOLE(1)))
        column, blocks = self._begin(start, b.block, columns)
        for one in self.passes.passes:
            self._pass(one, row, column)
        self._end(column, blocks, self.count, columns)
        self._end(row, rows, 1, last)
        b.ret(WHOLE(0))

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

    def _pass(self, one: Pass, row: Any, column: Any) -> None:
        front = len(self.passes.inputs)
        indices: dict[int, Any] = {front - 1: column}
        if front == 2:
            indices[0] = row
        seen = {n: self._cell() for n, _ in one.flags}
        self._nest(one, indices, list(one.sizes), seen)
        for n, cell in seen.items():
            place = self._outer_address(("flag", n), tuple(range(front)), indices)
            self.builder.store(self.builder.load(cell, typ=self.vector), place, align=self.width)

    def _nest(self, one: Pass, indices: dict[int, Any], sizes: list[int], seen: Mapping[int, Any]) -> None:
        if sizes:
            dim = len(self.passes.inputs) + len(one.sizes) - len(sizes)
            with self._loop(sizes[0]) as index:
                self._nest(one, {**indices, dim: index}, sizes[1:], seen)
            return
        b, names, offsets = self.builder, {}, {}
        for (n, dims), name in one.reads.items():
            names[name] = self._read(n, dims, indices)
        for name, reduction in one.reductions.items():
            names[name] = self._reduced(one, reduction, indices)
        for name, gather in one.gathers.items():
            names[name] = self._gathered(gather, indices, one, offsets)
        for name, text in one.assignments:
            names[name] = self.formulas.value(text, names)
        everything = tuple(range(len(self.passes.inputs) + len(one.sizes)))
        for n, text in one.results:
            value, dims = self.formulas.value(text, names), self.passes._front(n, everything)
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

    def _read(self, n: int, dims: Dims, indices: Mapping[int, Any]) -> Any:
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

    def _outer_address(self, key: tuple[str, int], dims: Dims, indices: Mapping[int, Any]) -> Any:
        """Of a given or asked array: [places][rows][columns], with as many of them as it has."""
        b, (places, rows) = self.builder, self.strides[key]
        inputs, n = self.passes.inputs, key[1]
        sizes = self.passes.sizes_of(n) if key[0] != "flag" else ()
        total: Any = WHOLE(0)
        for size, dim in zip(sizes, (d for d in dims if d >= len(inputs)), strict=True):
            total = b.add(b.mul(total, WHOLE(size)), indices[dim])
        total = b.mul(total, places)
        if 0 in dims and len(inputs) == 2:
            total = b.add(total, b.mul(indices[0], rows))
        if len(inputs) - 1 in dims:
            total = b.add(total, indices[len(inputs) - 1])
        return b.gep(self.bases[key], [total], source_etype=self.element)

    def _kept_address(self, n: int, dims: Dims, indices: Mapping[int, Any]) -> Any:
        b, kept = self.builder, self.kept[n]
        total: Any = WHOLE(kept.start)
        inner = [d for d in dims if d >= len(self.passes.inputs)]
        for stride, dim in zip(kept.strides, inner, strict=True):
            total = b.add(total, b.mul(indices[dim], WHOLE(stride)))
        return b.gep(self.scratch, [total], source_etype=self.vector)

    def _gathered(self, gather: Gather, indices: Mapping[int, Any], one: Pass, offsets: dict[Any, Any]) -> Any:
        b, kept, n = self.builder, self.kept[gather.operand], gather.operand
        labels = self.passes.labels[n]
        axes = [p for p, x in zip(gather.at, labels, strict=True) if x not in self.passes.inputs]
        start: Any = WHOLE(kept.start)
        picks: list[tuple[Any, Any, Picks]] = []
        for place, stride, extent in zip(axes, kept.strides, kept.extents, strict=True):
            if isinstance(place, Picks):
                picks.append((*self._picked(place, stride, extent, indices, one), place))
            else:
                start = b.add(start, b.mul(indices[place], WHOLE(stride)))
        base = b.gep(self.scratch, [start], source_etype=self.vector)

        def tap(t: Any) -> Any:
            distance: Any = None
            for table, at, pick in picks:
                key = (table, pick.dims, t.constant if isinstance(t, ir.Constant) else t)
                if key not in offsets:
                    offsets[key] = b.load(b.gep(table, [b.add(at, t)], source_etype=WHOLE), typ=WHOLE)
                distance = offsets[key] if distance is None else b.add(distance, offsets[key])
            place = b.gep(base, [distance], source_etype=self.vector)
            return b.load(place, typ=self.vector, align=self.width * self.count)

        if gather.taps <= _WRITTEN_OUT:
            total = tap(WHOLE(0))
            for t in range(1, gather.taps):
                total = self.formulas.arithmetic.add(total, tap(WHOLE(t)))
            return total
        cell = self._cell()
        with self._loop(gather.taps) as t:
            b.store(self.formulas.arithmetic.add(b.load(cell, typ=self.vector), tap(t)), cell)
        return b.load(cell, typ=self.vector)

    def _picked(
        self, picks: Picks, stride: int, extent: int, indices: Mapping[int, Any], one: Pass
    ) -> tuple[Any, Any]:
        """A table of distances, taps of a place together, and where those of this place begin."""
        key = (picks.places.tobytes(), picks.places.shape, stride, extent)
        if key not in self.known_tables:
            places = numpy.where(picks.places < 0, extent - 1, picks.places) * stride
            number = len(self.outer) + len(self.tables)
            self.tables.append(numpy.ascontiguousarray(places.T, dtype=numpy.int64))
            with self.builder.goto_entry_block():
                place = self.builder.gep(self.addresses, [WHOLE(number)], source_etype=POINTER)
                self.known_tables[key] = self.builder.load(place, typ=POINTER)
        b, total = self.builder, WHOLE(0)
        for dim in picks.dims:
            total = b.add(b.mul(total, WHOLE(one.sizes[dim - len(self.passes.inputs)])), indices[dim])
        return self.known_tables[key], b.mul(total, WHOLE(len(picks.places)))

    def _reduced(self, one: Pass, reduction: Reduction, indices: Mapping[int, Any]) -> Any:
        b, cell = self.builder, self._cell()

        def level(known: Mapping[int, Any], sizes: Sequence[int]) -> None:
            if sizes:
                dim = len(self.passes.inputs) + len(one.sizes) + len(reduction.sizes) - len(sizes)
                with self._loop(sizes[0]) as index:
                    level({**known, dim: index}, sizes[1:])
                return
            values = [self._read(n, dims, known) for n, dims in reduction.factors]
            product = values[0]
            for value in values[1:]:
                product = self.formulas.arithmetic.multiply(product, value)
            b.store(self.formulas.arithmetic.add(b.load(cell, typ=self.vector), product), cell)

        level(indices, reduction.sizes)
        return b.load(cell, typ=self.vector)
