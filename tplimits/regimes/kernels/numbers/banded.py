"""Chains as code: offset by offset, all passes between two pools, what they keep in the cache; pairs beside each other.

The lanes are inputs, or any pairs of them.  What pairs read of one input is brought beside each other before (`_packed`).
A table of a chain is kept as one image with a border, the entries of one offset by their place p; the border holds what
a tap outside counts for.  Sums over shared taps take the columns once: those of the places before stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from llvmlite import ir

from tplimits.regimes.kernels.numbers.bands import Bands, Chain, Whole
from tplimits.regimes.kernels.numbers.cells import Axis, Kept
from tplimits.regimes.kernels.numbers.lanes import Lanes
from tplimits.regimes.kernels.numbers.memory import POINTER, WHOLE
from tplimits.regimes.kernels.numbers.offsets import Offset, Pooled, in_order, is_upper, rectangle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.regimes.kernels.numbers.forms import Dims, Gather, Pass, Reduction

#: numbers of an offset before those of its pools, and of a rectangle that a pool adds
_HEAD, _RECTANGLE = 7, 5
#: tables of whole numbers before all others: left and right input of each pair
PAIRS = 2


class Strip(Axis):
    """One image of a table over pairs of places."""


@dataclass(eq=False)
class Banded(Lanes):
    """The code of passes with chains among them; lanes are inputs, or pairs of inputs."""

    #: what more would do is done here: it takes twice as long for the same code
    level = 1
    bands: Bands = field(init=False)
    totals: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bands = Bands(self.passes)
        super().__post_init__()

    # -- memory -------------------------------------------------------------------------------

    def found_axes(self) -> dict[int, Axis]:
        """As the chains have them."""
        return self.bands.axes

    def axes_for(self, n: int) -> tuple[Axis, ...]:
        """A table over pairs of places is kept as one image."""
        if self.bands.is_pair(n):
            a = self.axis(self.passes.sizes_of(n)[0])
            return (Strip(a.size, a.shape, a.border),)
        return super().axes_for(n)

    def is_row(self, n: int) -> bool:
        return False

    def _place_arrays(self) -> None:
        super()._place_arrays()
        for found in self.bands.kept:
            found.start, self.room = self.room, self.room + found.extent
        if len(self.passes.inputs) == 2:
            given = dict.fromkeys(n for p in self.passes.passes for n in self._read_by_place(p) if self.is_given(n))
            for n in given:
                axes = self.axes_for(n)
                self.kept[n] = Kept(self.room, axes)
                self.packed.append(n)
                self.room += numpy.prod([a.extent for a in axes], dtype=int).item()

    def _read_by_place(self, one: Pass) -> Iterator[int]:
        """What a pass reads of one input, by address or around the entries of a table."""
        yield from (n for n, _ in one.reads if self.is_one_input(n))
        for gather in one.gathers.values():
            yield from (n for n in (gather.operand, *gather.outside) if self.is_one_input(n))
        for reduction in one.reductions.values():
            yield from (n for n, _ in reduction.factors if self.is_one_input(n))

    def _read_by(self, one: Pass) -> Iterator[int]:
        yield from super()._read_by(one)
        for gather in one.gathers.values():
            yield from gather.outside
            if id(gather) in self.bands.pools:
                yield self.bands.pools[id(gather)].fine
            elif id(gather) in self.bands.sums:
                yield from (n for n, _ in self.bands.sums[id(gather)].factors)

    def is_one_input(self, n: int) -> bool:
        return len(set(self.passes.inputs) & set(self.passes.labels[n])) == 1

    def read(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        """A vector of an array at the indices of the loops."""
        if n not in self.kept or (self.is_given(n) and n not in self.packed):
            return super().read(n, dims, indices)
        return self.builder.load(self.kept_address(n, dims, indices), typ=self.vector, align=self.width * self.count)

    def kept_address(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        if not self.bands.is_pair(n):
            return super().kept_address(n, dims, indices)
        return self._at(self.kept[n].start, indices["cell", len(self.passes.inputs)])

    def _at(self, start: Any, place: Any) -> Any:
        """The address of a vector in the room of the thread."""
        where = self.builder.add(place, WHOLE(start) if isinstance(start, int) else start)
        return self.builder.gep(self.scratch, [where], source_etype=self.vector)

    def _load(self, start: Any, place: Any) -> Any:
        return self.builder.load(self._at(start, place), typ=self.vector, align=self.width * self.count)

    def _store(self, value: Any, start: Any, place: Any) -> None:
        self.builder.store(value, self._at(start, place), align=self.width * self.count)

    # -- code ---------------------------------------------------------------------------------

    def _write(self) -> None:
        self.tables = [numpy.zeros(1, numpy.int64) for _ in range(PAIRS)]
        chains = [c for c in self.bands.phases if isinstance(c, Chain)]
        self.whole, self.half = ([self._numbers(c, half) for c in chains] for half in (False, True))
        self.places_of_tables = {id(c): len(self.tables) + k for k, c in enumerate(chains)}
        self.tables += self.whole
        first, last, _, _ = self._opened()
        b = self.builder
        self.pointers = {k: self._table(k) for k in range(len(self.tables))}
        block, blocks = self._begin(first, b.block)
        column = b.mul(block, WHOLE(self.count))
        self._pack(column)
        for found in self.bands.kept:
            with self._loop(found.extent) as k:
                self._store(self.formulas.constant(0.0), found.start, k)
        for chain in chains:
            for whole in chain.totals:
                self.totals[id(whole)] = self._cell()
        for phase in self.bands.phases:
            if isinstance(phase, Chain):
                self._chain(phase, column)
            else:
                for one in phase:
                    self._pass(one, WHOLE(0), column)
        self._end(block, blocks, 1, last)
        b.ret(WHOLE(0))

    def _table(self, number: int) -> Any:
        place = self.builder.gep(self.addresses, [WHOLE(len(self.outer) + number)], source_etype=POINTER)
        return self.builder.load(place, typ=POINTER)

    def _whole(self, table: Any, place: Any) -> Any:
        return self.builder.load(self.builder.gep(table, [place], source_etype=WHOLE), typ=WHOLE)

    def _pack(self, column: Any) -> None:
        """What pairs read of one input, of the inputs of some pairs beside each other."""
        b = self.builder
        lanes: dict[int, list[tuple[Any, Any]]] = {}
        for side in range(PAIRS if self.packed else 0):
            numbers = [self._whole(self.pointers[side], b.add(column, WHOLE(k))) for k in range(self.count)]
            lanes[side] = [(b.and_(i, WHOLE(-self.count)), b.and_(i, WHOLE(self.count - 1))) for i in numbers]
        for n in self.packed:
            side = int(self.passes.inputs[1] in self.passes.labels[n])
            axes, sizes = self.kept[n].axes, self.passes.sizes_of(n)
            many = int(numpy.prod(sizes, dtype=int))
            bases = [
                b.gep(self.bases["in", n], [b.add(b.mul(block, WHOLE(many)), lane)], source_etype=self.element)
                for block, lane in lanes[side]
            ]
            dims = tuple(range(len(self.passes.inputs), len(self.passes.inputs) + len(axes)))
            with ExitStack() as loops:
                indices: dict[Any, Any] = {}
                for dim, size in zip(dims, sizes, strict=True):
                    (found,) = loops.enter_context(self._along(dim, size))
                    indices |= found
                place: Any = WHOLE(0)
                for dim, size in zip(dims, sizes, strict=True):
                    place = b.add(b.mul(place, WHOLE(size)), indices[dim])
                value: Any = ir.Constant(self.vector, ir.Undefined)
                for k, base in enumerate(bases):
                    source = b.gep(base, [b.mul(place, WHOLE(self.count))], source_etype=self.element)
                    one = b.load(source, typ=self.element, align=self.width)
                    value = b.insert_element(value, one, ir.IntType(32)(k))
                address = super().kept_address(n, dims, indices)
                b.store(value, address, align=self.width * self.count)

    # -- chains -------------------------------------------------------------------------------

    def _numbers(self, chain: Chain, half: bool) -> NDArray[numpy.int64]:
        """Of each offset its rectangle, how far the other side is away, how often it counts, and what pools do."""
        starts = [p.starts(half) for p in chain.reads]
        offsets = in_order(o for o in chain.wanted if not half or is_upper(o))
        width = _HEAD + len(chain.reads) + 2 * len(chain.feeds)
        head = [[*_numbers_of(chain.axis, o, half), *(s[o] for s in starts)] for o in offsets]
        added: list[list[int]] = []
        begin = 1 + len(offsets) * width
        known: dict[Any, list[list[int]]] = {}
        for found in chain.feeds:
            key = found.left, found.right, found.axis, found.wanted
            if key not in known:
                additions, known[key] = found.additions(chain.axis, half), []
                for offset in offsets:
                    more, first = additions.of(offset), len(added)
                    known[key].append([begin + _RECTANGLE * k for k in (first, first + len(more))])
                    added += more
            for row, ends in zip(head, known[key], strict=True):
                row += ends
        head, rectangles = numpy.array(head, numpy.int64), numpy.array(added, numpy.int64)
        return numpy.concatenate([[len(offsets)], head.ravel(), rectangles.ravel()])

    def _chain(self, chain: Chain, column: Any) -> None:
        b, front = self.builder, len(self.passes.inputs)
        indices: dict[Any, Any] = {front - 1: column} | ({0: WHOLE(0)} if front == 2 else {})
        seen = {n: self._cell() for one in chain.passes for n, _ in one.flags}
        table = self.pointers[self.places_of_tables[id(chain)]]
        width = _HEAD + len(chain.reads) + 2 * len(chain.feeds)
        k, blocks = self._begin(WHOLE(0), b.block)
        start = b.add(b.mul(k, WHOLE(width)), WHOLE(1))
        numbers = [self._whole(table, b.add(start, WHOLE(j))) for j in range(width)]
        here = Here(chain, numbers, table)
        for one in chain.passes:
            self._sweep(one, here, indices, seen)
            for n, _ in one.results:
                if n in self.bands.rings:
                    self._ring(n, here)
                for j, found in enumerate(chain.feeds):
                    if found.fine == n:
                        self._feed(found, here, j)
        for whole in chain.totals:
            self._add_up(whole, here, indices)
        self._end(k, blocks, 1, self._whole(table, WHOLE(0)))
        for n, cell in seen.items():
            place = self.outer_address(("flag", n), tuple(range(front)), indices)
            b.store(b.load(cell, typ=self.vector), place, align=self.width)

    @contextmanager
    def _count(self, many: Any, first: Any = None) -> Iterator[Any]:
        """A loop of at least one round."""
        index, blocks = self._begin(WHOLE(0) if first is None else first, self.builder.block)
        yield index
        self._end(index, blocks, 1, many)

    def _sweep(self, one: Pass, here: Here, indices: dict[Any, Any], seen: Mapping[int, Any]) -> None:
        """A pass over the entries of an offset, row by row."""
        b, axis, front = self.builder, here.chain.axis, len(self.passes.inputs)
        windows = {name: g for name, g in one.gathers.items() if id(g) in self.bands.windows}
        with self._count(here.rows) as y:
            cell = self._cell_of(here, y, WHOLE(0))
            place = b.add(b.mul(b.add(here.top, y), WHOLE(axis.shape[1])), here.side)
            counter = b.mul(y, here.columns)
            ready = {name: self._columns(g, cell) for name, g in windows.items()}
            before = b.block
            x, blocks = self._begin(WHOLE(0), before)
            carried = {name: [self._phi(v, before) for v in values] for name, values in ready.items()}
            names: dict[str, Any] = {}
            for name, g in windows.items():
                window = self.bands.windows[id(g)]
                kept = [*carried[name], self._column(g, b.add(cell, x), window.columns[-1])]
                names[name] = self._sum([kept[c - window.columns[0]] for c in window.columns])
                carried[name] = list(zip(carried[name], kept[1:], strict=True))
            where = {
                front: b.add(place, x),
                front + 1: b.add(b.add(place, x), here.place_shift),
                ("cell", front): b.add(cell, x),
                ("cell", front + 1): b.add(b.add(cell, x), here.cell_shift),
                "counter": b.add(counter, x),
                "here": here,
            }
            for name, reduction in one.reductions.items():
                (names[name],) = self._reduced(one, reduction, [{**indices, **where}])
            self._point(one, {**indices, **where}, names, seen)
            for pairs in carried.values():
                for phi, value in pairs:
                    phi.add_incoming(value, b.block)
            self._end(x, blocks, 1, here.columns)

    def _phi(self, value: Any, before: Any) -> Any:
        found = self.builder.phi(self.vector)
        found.add_incoming(value, before)
        return found

    def _cell_of(self, here: Here, y: Any, x: Any) -> Any:
        """The cell of a place of the rectangle."""
        b, axis = self.builder, here.chain.axis
        row = b.add(b.add(here.top, y), WHOLE(axis.border[0]))
        return b.add(b.mul(row, WHOLE(axis.width)), b.add(b.add(here.side, x), WHOLE(axis.border[1])))

    def _columns(self, gather: Gather, cell: Any) -> list[Any]:
        """Sums of the columns before the last one."""
        columns = self.bands.windows[id(gather)].columns
        return [self._column(gather, cell, c) for c in range(columns[0], columns[-1])]

    def _column(self, gather: Gather, cell: Any, column: int) -> Any:
        """The sum of a column of taps."""
        kept = self.kept[gather.operand]
        (axis,) = kept.axes
        rows = self.bands.windows[id(gather)].rows
        return self._sum([self._load(kept.start + a * axis.width + column, cell) for a in rows])

    def _sum(self, values: Sequence[Any]) -> Any:
        total = values[0]
        for value in values[1:]:
            total = self.formulas.arithmetic.add(total, value)
        return total

    def _ring(self, n: int, here: Here) -> None:
        """What taps outside count for, around the entries of an offset."""
        b, axis, outside = self.builder, here.chain.axis, self.bands.rings[n]
        start, (down, across) = self.kept[n].start, axis.border

        def fill(cell: Any) -> None:
            value = self.formulas.constant(0.0)
            if outside:
                one, other = (self.kept[v].start for v in outside)
                both = self.formulas.arithmetic.add(self._load(one, cell), self._load(other, b.add(cell, here.cell_shift)))
                value = self.formulas.arithmetic.multiply(both, self.formulas.constant(0.5))
            self._store(value, start, cell)

        if down:
            with self._count(b.add(here.columns, WHOLE(2 * across))) as x:
                for k in range(down):
                    for y in (WHOLE(-1 - k), b.add(here.rows, WHOLE(k))):
                        fill(self._cell_of(here, y, b.sub(x, WHOLE(across))))
        if across:
            with self._count(here.rows) as y:
                for k in range(across):
                    for x in (WHOLE(-1 - k), b.add(here.columns, WHOLE(k))):
                        fill(self._cell_of(here, y, x))

    def _feed(self, found: Pooled, here: Here, number: int) -> None:
        """Add the entries of an offset to the pools they belong to."""
        b, axis, fine = self.builder, here.chain.axis, self.kept[found.fine].start
        sy, sx = found.left.strides
        place = _HEAD + len(here.chain.reads) + 2 * number
        k, blocks = self._begin(here.numbers[place], b.block, here.numbers[place + 1])
        cell, rows, columns, target, pitch = (self._whole(here.table, b.add(k, WHOLE(j))) for j in range(_RECTANGLE))
        with self._count(rows) as y:
            source = b.add(cell, b.mul(y, WHOLE(sy * axis.width)))
            to = b.add(target, b.mul(y, pitch))
            with self._count(columns) as x:
                more, at = self._load(fine, b.add(source, b.mul(x, WHOLE(sx)))), b.add(to, x)
                self._store(self.formulas.arithmetic.add(self._load(found.start, at), more), found.start, at)
        self._end(k, blocks, _RECTANGLE, here.numbers[place + 1])

    def _add_up(self, whole: Whole, here: Here, indices: Mapping[Any, Any]) -> None:
        """Add the entries of an offset to the sum over all pairs of places."""
        b, axis, front = self.builder, here.chain.axis, len(self.passes.inputs)
        part, arithmetic = self._cell(), self.formulas.arithmetic
        with self._count(here.rows) as y:
            cell = self._cell_of(here, y, WHOLE(0))
            place = b.add(b.mul(b.add(here.top, y), WHOLE(axis.shape[1])), here.side)
            with self._count(here.columns) as x:
                where = {
                    **indices,
                    front: b.add(place, x),
                    front + 1: b.add(b.add(place, x), here.place_shift),
                    ("cell", front): b.add(cell, x),
                    ("cell", front + 1): b.add(b.add(cell, x), here.cell_shift),
                }
                value = None
                for m, dims in whole.factors:
                    one = self.read(m, dims, where)
                    value = one if value is None else arithmetic.multiply(value, one)
                b.store(arithmetic.add(b.load(part, typ=self.vector), value), part)
        times = b.sitofp(here.weight, self.element)
        many = b.insert_element(ir.Constant(self.vector, ir.Undefined), times, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.count), [0] * self.count)
        found = arithmetic.multiply(b.load(part, typ=self.vector), b.shuffle_vector(many, many, zeros))
        total = self.totals[id(whole)]
        b.store(arithmetic.add(b.load(total, typ=self.vector), found), total)

    # -- sums ---------------------------------------------------------------------------------

    def _gathered(self, gather: Gather, indices: Mapping[Any, Any], one: Pass, offsets: dict[Any, Any]) -> Any:
        if id(gather) in self.bands.sums:
            return self.builder.load(self.totals[id(self.bands.sums[id(gather)])], typ=self.vector)
        found = self.bands.pools.get(id(gather))
        if found is None:
            return super()._gathered(gather, indices, one, offsets)
        left, right = self.bands.dims[id(gather)]
        if left == right:  # equal places come first
            return self._load(found.start, indices[left])
        here = indices["here"]
        start = here.numbers[_HEAD + here.chain.reads.index(found)]
        return self._load(found.start, self.builder.add(start, indices["counter"]))

    def _reduced(self, one: Pass, reduction: Reduction, points: Sequence[Mapping[Any, Any]]) -> list[Any]:
        whole = self.bands.sums.get(id(reduction))
        if whole is None:
            return super()._reduced(one, reduction, points)
        return [self.builder.load(self.totals[id(whole)], typ=self.vector)] * len(points)


@dataclass(frozen=True, eq=False)
class Here:
    """The offset that a chain is at: its numbers, and the table they come from."""

    chain: Chain
    numbers: Sequence[Any]
    table: Any

    top = property(lambda self: self.numbers[0])
    rows = property(lambda self: self.numbers[1])
    side = property(lambda self: self.numbers[2])
    columns = property(lambda self: self.numbers[3])
    cell_shift = property(lambda self: self.numbers[4])
    place_shift = property(lambda self: self.numbers[5])
    weight = property(lambda self: self.numbers[6])


def _numbers_of(axis: Axis, offset: Offset, half: bool) -> list[int]:
    """The rectangle of an offset, how far the other side is away in cells and in places, how often it counts."""
    cells, places = (offset[0] * n + offset[1] for n in (axis.width, axis.shape[1]))
    return [*rectangle(axis.shape, offset), cells, places, 2 if half and offset != (0, 0) else 1]
