"""Chains as code: offset by offset, all passes between two pools, what they keep in the cache; pairs beside each other.

The lanes are inputs, or any pairs of them.  What pairs read of one input is brought beside each other first.  A table
of a chain is kept as one image with a border, the entries of one offset by their place p; the border holds what a tap
outside counts for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from llvmlite import ir

from tplimits.regimes.kernels.numbers.bands import Bands, Chain
from tplimits.regimes.kernels.numbers.cells import Axis, Kept
from tplimits.regimes.kernels.numbers.memory import POINTER, WHOLE
from tplimits.regimes.kernels.numbers.offsets import in_order, is_upper
from tplimits.regimes.kernels.numbers.sweeps import RECTANGLE, Sweeps, is_inside, numbers_of, width_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.regimes.kernels.numbers.forms import Dims, Pass

#: tables of whole numbers before all others: left and right input of each pair
PAIRS = 2


class Strip(Axis):
    """One image of a table over pairs of places."""


@dataclass(eq=False)
class Banded(Sweeps):
    """The code of passes with chains among them; lanes are inputs, or pairs of inputs."""

    #: everything is written as it is to run: what LLVM would rewrite takes it twice as long for the same code
    speed = 0
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
        self.whole = [self._numbers(c, False) for c in chains]
        self.half = [self._numbers(c, True) for c in chains] if len(self.passes.inputs) == 1 else []
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

    def _numbers(self, chain: Chain, half: bool) -> NDArray[numpy.int64]:
        """Of each offset how often it counts, its rectangles, where sums over pools begin, what is added to others."""
        axes = [self.axis(level.size) for level in chain.levels]
        starts = [p.starts(half) for p in chain.reads]
        offsets = in_order(o for o in chain.wanted if not half or is_upper(o))
        width = width_of(chain)
        at = [[level.offset(o) for level in chain.levels] for o in offsets]
        head = []
        for offset, mine in zip(offsets, at, strict=True):
            row = [2 if half and offset != (0, 0) else 1]
            for axis, o in zip(axes, mine, strict=True):
                row += numbers_of(axis, o)
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
                    added += additions.of(o) if o is not None and is_inside(axes[place], o) else []
                    known[key].append([begin + RECTANGLE * k for k in (first, len(added))])
            for row, ends in zip(head, known[key], strict=True):
                row += ends
        rectangles = numpy.array(added, numpy.int64).ravel()
        return numpy.concatenate([[len(offsets)], numpy.array(head, numpy.int64).ravel(), rectangles])
