"""Chains as code: offset by offset, all passes between two pools, what they keep in the cache; pairs beside each other.

The lanes are inputs, or any pairs of them.  What pairs read of one input is brought beside each other first.  A table
of a chain is kept as one image with a border, the entries of one offset by their place p; the border holds what a tap
outside counts for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.regimes.kernels.numbers.passes.bands import Bands, Chain, Level
from tplimits.regimes.kernels.numbers.passes.cells import Axis
from tplimits.regimes.kernels.numbers.passes.listed import PAIRS
from tplimits.regimes.kernels.numbers.passes.memory import WHOLE
from tplimits.regimes.kernels.numbers.passes.offsets import Offset, Pool, additions, in_order, is_upper, starts_of
from tplimits.regimes.kernels.numbers.passes.sweeps import RECTANGLE, Sweeps, is_inside, numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.regimes.kernels.numbers.passes.forms import Dims, Pass


class Strip(Axis):
    """One image of a table over pairs of places."""


@dataclass(eq=False)
class Banded(Sweeps):
    """The code of passes with chains among them; lanes are inputs, or pairs of inputs."""

    #: everything is written as it is to run: rewriting takes twice as long for the same code
    rewritten = False
    bands: Bands = field(init=False)
    totals: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bands = Bands(self.passes)
        super().__post_init__()

    def found_axes(self) -> dict[int, Axis]:
        """As the chains have them."""
        return self.bands.axes

    def axes_for(self, n: int) -> tuple[Axis, ...]:
        """A table over pairs of places is kept as one image."""
        if self.bands.is_pair(n):
            a = self.axis(self.passes.sizes_of(n)[0])
            return (Strip(a.size, a.shape, a.border),)
        return super().axes_for(n)

    def _place_arrays(self) -> None:
        super()._place_arrays()
        for found in self.bands.kept:
            found.start, self.room = self.room, self.room + found.extent

    def _read_by_place(self, one: Pass) -> Iterator[int]:
        """What stands around the entries of a table, too."""
        yield from super()._read_by_place(one)
        for gather in one.gathers.values():
            yield from filter(self.is_one_input, gather.outside)

    def _read_by(self, one: Pass) -> Iterator[int]:
        yield from super()._read_by(one)
        for gather in one.gathers.values():
            yield from gather.outside
            if id(gather) in self.bands.pools:
                yield self.bands.pools[id(gather)].fine
            elif id(gather) in self.bands.sums:
                yield from (n for n, _ in self.bands.sums[id(gather)].factors)

    def kept_address(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        if not self.bands.is_pair(n):
            return super().kept_address(n, dims, indices)
        return self._at(self.kept[n].start, indices["cell", len(self.passes.inputs)])

    def _write(self) -> None:
        self.tables = [numpy.zeros(1, numpy.int64) for _ in range(PAIRS)]
        chains = [c for c in self.bands.phases if isinstance(c, Chain)]
        self.whole = [self._numbers(c, False) for c in chains]
        self.half = [self._numbers(c, True) for c in chains] if len(self.passes.inputs) == 1 else []
        self.places_of_tables = {id(c): len(self.tables) + k for k, c in enumerate(chains)}
        self.tables += self.whole
        with self._blocks() as column:
            self._all(chains, column)

    def _all(self, chains: list[Chain], column: Any) -> None:
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
                    self._pass(one, [WHOLE(0)], column)

    def _numbers(self, chain: Chain, half: bool) -> NDArray[numpy.int64]:
        """Of each offset how often it counts, its rectangles, where sums over pools begin, what is added to others."""
        levels = tuple((self.axis(level.size), level) for level in chain.levels)
        reads = tuple((p.axis, p.wanted, k) for p, k in zip(chain.reads, chain.read_at, strict=True))
        feeds = tuple((p.left, p.right, p.axis, p.wanted, k) for p, k in zip(chain.feeds, chain.fed_at, strict=True))
        return _numbers(levels, reads, feeds, chain.wanted, half)


@lru_cache(maxsize=64)
def _numbers(
    levels: tuple[tuple[Axis, Level], ...],
    reads: tuple[tuple[Axis, frozenset[Offset], int], ...],
    feeds: tuple[tuple[Pool, Pool, Axis, frozenset[Offset], int], ...],
    wanted: frozenset[Offset],
    half: bool,
) -> NDArray[numpy.int64]:
    """The same from what it depends on: tapes of pairs and of inputs share it, and so do both precisions."""
    begins = [starts_of(axis, some, half) for axis, some, _ in reads]
    offsets = in_order(o for o in wanted if not half or is_upper(o))
    at = [[level.offset(o) for _, level in levels] for o in offsets]
    rows = []
    for offset, mine in zip(offsets, at, strict=True):
        row = [2 if half and offset != (0, 0) else 1]
        for (axis, _), o in zip(levels, mine, strict=True):
            row += numbers_of(axis, o)
        row += [s.get(mine[k], 0) for s, (_, _, k) in zip(begins, reads, strict=True)]  # type: ignore[arg-type]
        rows.append(row)
    head = numpy.array(rows, numpy.int64)
    begin = 1 + len(offsets) * (head.shape[-1] + 2 * len(feeds))
    known: dict[Any, NDArray[numpy.int64]] = {}
    rectangles = []
    for key in feeds:
        left, right, coarse, some, place = key
        if key not in known:
            fine = levels[place][0]
            inside = {n: o for n, mine in enumerate(at) if (o := mine[place]) is not None and is_inside(fine, o)}
            starts, there = starts_of(coarse, some, half), list(inside.values())
            found, each = additions((left, right), (fine, coarse), starts, half, there)
            many = numpy.zeros(len(at), numpy.int64)
            many[list(inside)] = each
            ends = begin + RECTANGLE * numpy.cumsum(many)
            known[key] = numpy.stack([ends - RECTANGLE * many, ends], axis=1)
            rectangles.append(found.ravel())
            begin += found.size
        head = numpy.concatenate([head, known[key]], axis=1)
    made = numpy.concatenate([[len(offsets)], numpy.ravel(head), *rectangles]).astype(numpy.int64)
    made.flags.writeable = False  # who wrote there would change other kernels
    return made
