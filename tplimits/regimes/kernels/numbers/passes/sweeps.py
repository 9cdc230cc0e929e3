"""The code of chains: at each offset every pass over its entries, borders, and what pools and sums take of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from tplimits.regimes.kernels.numbers.passes.lanes import Sum
from tplimits.regimes.kernels.numbers.passes.listed import Listed
from tplimits.regimes.kernels.numbers.passes.memory import WHOLE
from tplimits.regimes.kernels.numbers.passes.offsets import Offset, Pooled, rectangle

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.bands import Bands, Chain, Whole
    from tplimits.regimes.kernels.numbers.passes.cells import Axis
    from tplimits.regimes.kernels.numbers.passes.forms import Gather, Pass, Reduction

#: numbers of an offset on one grid, and of a rectangle that a pool adds
_LEVEL, RECTANGLE = 6, 5


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


@dataclass(eq=False)
class Sweeps(Listed):
    """Chains in the code of passes."""

    bands: Bands = field(init=False)
    totals: dict[int, Any] = field(default_factory=dict)
    places_of_tables: dict[int, int] = field(default_factory=dict)

    def _chain(self, chain: Chain, column: Any) -> None:
        b, front = self.builder, len(self.passes.inputs)
        indices: dict[Any, Any] = {front - 1: column} | ({0: WHOLE(0)} if front == 2 else {})
        table = self.pointers[self.places_of_tables[id(chain)]]
        # the table begins with the number of offsets; those of an offset stand one behind the other
        k, blocks = self._begin(WHOLE(0), b.block)
        start = b.add(b.mul(k, WHOLE(width_of(chain))), WHOLE(1))
        numbers = [self._whole(table, b.add(start, WHOLE(j))) for j in range(width_of(chain))]
        levels = [
            Here(chain, self.axis(level.size), numbers, table, 1 + _LEVEL * j) for j, level in enumerate(chain.levels)
        ]
        for one in chain.passes:
            here = levels[chain.level_of[id(one)]]
            with self._where(here):
                self._sweep(one, here, indices)
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

    @contextmanager
    def _where(self, here: Here) -> Iterator[None]:
        """What is done only at offsets that a level has."""
        # the table names no offset that a single grid does not have
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

    def _sweep(self, one: Pass, here: Here, indices: dict[Any, Any]) -> None:
        """A pass over the entries of an offset, row by row."""
        b = self.builder
        with self._count(here.rows) as y:
            sums = {n: self._of_taps(g, here, y) for n, g in one.gathers.items() if id(g) in self.bands.windows}
            counter, at = b.mul(y, here.columns), self._row(here, y)
            with self._walk(here.columns, sums) as (x, names):
                where = {**indices, **self._place(here, at, x), "counter": b.add(counter, x), "here": here}
                for name, reduction in one.reductions.items():
                    (names[name],) = self._reduced(one, reduction, [where])
                self._point(one, where, names)

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

        # taps outside of the image read a border of cells, which is written anew for each offset
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
        cell, rows, columns, target, pitch = (self._whole(here.table, b.add(k, WHOLE(j))) for j in range(RECTANGLE))
        with self._count(rows) as y:
            source = b.add(cell, b.mul(y, WHOLE(sy * here.axis.width)))
            to = b.add(target, b.mul(y, pitch))
            with self._count(columns) as x:
                more, at = self._load(fine, b.add(source, b.mul(x, WHOLE(sx)))), b.add(to, x)
                self._store(self.formulas.arithmetic.add(self._load(found.start, at), more), found.start, at)
        self._end(k, blocks, RECTANGLE, here.numbers[place + 1])

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
        # an offset stands for its opposite, too, where the table is symmetric: it counts twice in the total
        times = b.sitofp(here.weight, self.element)
        many = b.insert_element(ir.Constant(self.vector, ir.Undefined), times, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.count), [0] * self.count)
        found = arithmetic.multiply(b.load(part, typ=self.vector), b.shuffle_vector(many, many, zeros))
        total = self.totals[id(whole)]
        b.store(arithmetic.add(b.load(total, typ=self.vector), found), total)

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


def width_of(chain: Chain) -> int:
    """Numbers of an offset."""
    return 1 + _LEVEL * len(chain.levels) + len(chain.reads) + 2 * len(chain.feeds)


def is_inside(axis: Axis, offset: Offset) -> bool:
    """Whether a grid has pairs of places at an offset."""
    return all(abs(o) < n for o, n in zip(offset, axis.shape, strict=True))


def numbers_of(axis: Axis, offset: Offset | None) -> list[int]:
    """The rectangle of an offset, and how far the other side is away in cells and in places; none where it has none."""
    if offset is None or not is_inside(axis, offset):
        return [0] * _LEVEL
    cells, places = (offset[0] * n + offset[1] for n in (axis.width, axis.shape[1]))
    return [*rectangle(axis.shape, offset), cells, places]
