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
from tplimits.regimes.kernels.numbers.lanes import Lanes, Sum
from tplimits.regimes.kernels.numbers.memory import POINTER, WHOLE
from tplimits.regimes.kernels.numbers.offsets import Offset, Pooled, in_order, is_upper, rectangle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.regimes.kernels.numbers.forms import Dims, Gather, Pass, Reduction

#: numbers of an offset on one grid, and of a rectangle that a pool adds
_LEVEL, _RECTANGLE = 6, 5
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
        """Of each offset how often it counts, the rectangles of all levels, where sums over pools are, what they add."""
        axes = [self.axis(level.size) for level in chain.levels]
        starts = [p.starts(half) for p in chain.reads]
        offsets = in_order(o for o in chain.wanted if not half or is_upper(o))
        width = _width(chain)
        at = [[level.offset(o) for level in chain.levels] for o in offsets]
        head = []
        for offset, mine in zip(offsets, at, strict=True):
            row = [2 if half and offset != (0, 0) else 1]
            for axis, o in zip(axes, mine, strict=True):
                row += _numbers_of(axis, o)
            row += [s.get(mine[k], 0) for s, k in zip(starts, chain.read_at, strict=True)]  # type: ignore[arg-type]
            head.append(row)
        added: list[list[int]] = []
        begin = 1 + len(offsets) * width
        known: dict[Any, list[list[int]]] = {}
        for found, place in zip(chain.feeds, chain.fed_at, strict=True):
            key = found.left, found.right, found.axis, found.wanted, place
            if key not in known:
                additions, known[key] = found.additions(axes[place], half), []
                for mine in at:
                    first, o = len(added), mine[place]
                    added += additions.of(o) if o is not None and _is_inside(axes[place], o) else []
                    known[key].append([begin + _RECTANGLE * k for k in (first, len(added))])
            for row, ends in zip(head, known[key], strict=True):
                row += ends
        rectangles = numpy.array(added, numpy.int64).ravel()
        return numpy.concatenate([[len(offsets)], numpy.array(head, numpy.int64).ravel(), rectangles])

    def _chain(self, chain: Chain, column: Any) -> None:
        b, front = self.builder, len(self.passes.inputs)
        indices: dict[Any, Any] = {front - 1: column} | ({0: WHOLE(0)} if front == 2 else {})
        seen = {n: self._cell() for one in chain.passes for n, _ in one.flags}
        table = self.pointers[self.places_of_tables[id(chain)]]
        k, blocks = self._begin(WHOLE(0), b.block)
        start = b.add(b.mul(k, WHOLE(_width(chain))), WHOLE(1))
        numbers = [self._whole(table, b.add(start, WHOLE(j))) for j in range(_width(chain))]
        levels = [
            Here(chain, self.axis(level.size), numbers, table, 1 + _LEVEL * j) for j, level in enumerate(chain.levels)
        ]
        for one in chain.passes:
            here = levels[chain.level_of[id(one)]]
            with self._where(here):
                self._sweep(one, here, indices, seen)
                for n, _ in one.results:
                    if n in self.bands.rings:
                        self._ring(n, here)
                    for j, found in enumerate(chain.feeds):
                        if found.fine == n:
                            self._feed(found, here, j)
        for whole in chain.totals:
            here = levels[self.bands._level(chain, whole)]
            with self._where(here):
                self._add_up(whole, here, indices)
        self._end(k, blocks, 1, self._whole(table, WHOLE(0)))
        for n, cell in seen.items():
            place = self.outer_address(("flag", n), tuple(range(front)), indices)
            b.store(b.load(cell, typ=self.vector), place, align=self.width)

    @contextmanager
    def _where(self, here: Here) -> Iterator[None]:
        """What is done only at offsets that a level has."""
        if len(here.chain.levels) == 1:
            yield
            return
        with self.builder.if_then(self.builder.icmp_signed(">", here.rows, WHOLE(0))):
            yield

    @contextmanager
    def _count(self, many: Any) -> Iterator[Any]:
        """A loop of at least one round."""
        index, blocks = self._begin(WHOLE(0), self.builder.block)
        yield index
        self._end(index, blocks, 1, many)

    def _sweep(self, one: Pass, here: Here, indices: dict[Any, Any], seen: Mapping[int, Any]) -> None:
        """A pass over the entries of an offset, row by row."""
        b = self.builder
        with self._count(here.rows) as y:
            sums = {n: self._of_taps(g, here, y) for n, g in one.gathers.items() if id(g) in self.bands.windows}
            counter, at = b.mul(y, here.columns), self._row(here, y)
            with self._walk(here.columns, sums) as (x, names):
                where = {**indices, **self._place(here, at, x), "counter": b.add(counter, x), "here": here}
                for name, reduction in one.reductions.items():
                    (names[name],) = self._reduced(one, reduction, [where])
                self._point(one, where, names, seen)

    def _row(self, here: Here, y: Any) -> tuple[Any, Any]:
        """The first place of a row of the rectangle, and its cell."""
        b = self.builder
        place = b.add(b.mul(b.add(here.top, y), WHOLE(here.axis.shape[1])), here.side)
        return place, self._cell_of(here, y, WHOLE(0))

    def _place(self, here: Here, row: tuple[Any, Any], x: Any) -> dict[Any, Any]:
        """Places and cells of both sides."""
        b, front = self.builder, len(self.passes.inputs)
        place, cell = (b.add(r, x) for r in row)
        return {
            front: place,
            front + 1: b.add(place, here.place_shift),
            ("cell", front): cell,
            ("cell", front + 1): b.add(cell, here.cell_shift),
        }

    def _of_taps(self, gather: Gather, here: Here, y: Any) -> Sum:
        """Sums over taps along a row."""
        b, (taken, (down, across)), kept = self.builder, self.bands.windows[id(gather)], self.kept[gather.operand]
        (axis,) = kept.axes
        row = b.add(b.mul(b.add(here.top, y), WHOLE(down)), WHOLE(axis.border[0]))
        side = b.add(b.mul(here.side, WHOLE(across)), WHOLE(axis.border[1]))
        return Sum(kept.start, axis.width, taken, b.add(b.mul(row, WHOLE(axis.width)), side), across)

    def _cell_of(self, here: Here, y: Any, x: Any) -> Any:
        """The cell of a place of the rectangle."""
        b, axis = self.builder, here.axis
        row = b.add(b.add(here.top, y), WHOLE(axis.border[0]))
        return b.add(b.mul(row, WHOLE(axis.width)), b.add(b.add(here.side, x), WHOLE(axis.border[1])))

    def _ring(self, n: int, here: Here) -> None:
        """What taps outside count for, around the entries of an offset."""
        b, arithmetic, outside = self.builder, self.formulas.arithmetic, self.bands.rings[n]
        start, (down, across) = self.kept[n].start, here.axis.border

        def fill(cell: Any) -> None:
            value = self.formulas.constant(0.0)
            if outside:
                one, other = (self.kept[v].start for v in outside)
                both = arithmetic.add(self._load(one, cell), self._load(other, b.add(cell, here.cell_shift)))
                value = arithmetic.multiply(both, self.formulas.constant(0.5))
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
        b, fine, chain = self.builder, self.kept[found.fine].start, here.chain
        sy, sx = found.left.strides
        place = 1 + _LEVEL * len(chain.levels) + len(chain.reads) + 2 * number
        k, blocks = self._begin(here.numbers[place], b.block, here.numbers[place + 1])
        cell, rows, columns, target, pitch = (self._whole(here.table, b.add(k, WHOLE(j))) for j in range(_RECTANGLE))
        with self._count(rows) as y:
            source = b.add(cell, b.mul(y, WHOLE(sy * here.axis.width)))
            to = b.add(target, b.mul(y, pitch))
            with self._count(columns) as x:
                more, at = self._load(fine, b.add(source, b.mul(x, WHOLE(sx)))), b.add(to, x)
                self._store(self.formulas.arithmetic.add(self._load(found.start, at), more), found.start, at)
        self._end(k, blocks, _RECTANGLE, here.numbers[place + 1])

    def _add_up(self, whole: Whole, here: Here, indices: Mapping[Any, Any]) -> None:
        """Add the entries of an offset to the sum over all pairs of places."""
        b, part, arithmetic = self.builder, self._cell(), self.formulas.arithmetic
        with self._count(here.rows) as y:
            row = self._row(here, y)
            with self._count(here.columns) as x:
                where = {**indices, **self._place(here, row, x)}
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
        start = here.numbers[1 + _LEVEL * len(here.chain.levels) + here.chain.reads.index(found)]
        return self._load(found.start, self.builder.add(start, indices["counter"]))

    def _reduced(self, one: Pass, reduction: Reduction, points: Sequence[Mapping[Any, Any]]) -> list[Any]:
        whole = self.bands.sums.get(id(reduction))
        if whole is None:
            return super()._reduced(one, reduction, points)
        return [self.builder.load(self.totals[id(whole)], typ=self.vector)] * len(points)


@dataclass(frozen=True, eq=False)
class Here:
    """The offset that a chain is at, for one of its levels: its numbers, and the table they come from."""

    chain: Chain
    axis: Axis
    numbers: Sequence[Any]
    table: Any
    first: int

    weight = property(lambda self: self.numbers[0])
    top = property(lambda self: self.numbers[self.first])
    rows = property(lambda self: self.numbers[self.first + 1])
    side = property(lambda self: self.numbers[self.first + 2])
    columns = property(lambda self: self.numbers[self.first + 3])
    cell_shift = property(lambda self: self.numbers[self.first + 4])
    place_shift = property(lambda self: self.numbers[self.first + 5])


def _width(chain: Chain) -> int:
    """Numbers of an offset."""
    return 1 + _LEVEL * len(chain.levels) + len(chain.reads) + 2 * len(chain.feeds)


def _is_inside(axis: Axis, offset: Offset) -> bool:
    return all(abs(o) < n for o, n in zip(offset, axis.shape, strict=True))


def _numbers_of(axis: Axis, offset: Offset | None) -> list[int]:
    """The rectangle of an offset, and how far the other side is away in cells and in places; none where it has none."""
    if offset is None or not _is_inside(axis, offset):
        return [0] * _LEVEL
    cells, places = (offset[0] * n + offset[1] for n in (axis.width, axis.shape[1]))
    return [*rectangle(axis.shape, offset), cells, places]
