"""What is compiled once for many arrays: passes that differ in nothing else, as layers of one kind do, and copies.

What tells such passes apart is a row of whole numbers for each: where its arrays lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy

from tplimits.regimes.kernels.numbers.passes.forms import Gather, Pass, Picks
from tplimits.regimes.kernels.numbers.passes.memory import POINTER, WHOLE, Memory
from tplimits.regimes.kernels.numbers.passes.walks import Walks


@dataclass(frozen=True)
class Run:
    """Passes of one form that follow each other, and the arrays of each in the same order."""

    passes: tuple[Pass, ...]
    arrays: tuple[tuple[int, ...], ...]


def runs(memory: Memory) -> list[Run]:
    """All passes in order, those of one form together."""
    found: list[Run] = []
    last: Any = None
    for one in memory.passes.passes:
        form, arrays = _form(memory, one)
        if form is not None and form == last:
            found[-1] = Run((*found[-1].passes, one), (*found[-1].arrays, arrays))
        else:
            found.append(Run((one,), (arrays,)))
        last = form
    return found


def _form(memory: Memory, one: Pass) -> tuple[Any, tuple[int, ...]]:
    """A pass with its arrays numbered as they come, None where one is of pairs and goes by address; its arrays."""
    number: dict[int, int] = {}

    def local(n: int) -> int:
        return number.setdefault(n, len(number))

    reads = [(local(n), dims, name) for (n, dims), name in one.reads.items()]
    gathers = [
        (name, local(g.operand), _places(g), g.taps, [*map(local, g.outside)]) for name, g in one.gathers.items()
    ]
    sums = [(name, [(local(n), dims) for n, dims in r.factors], r.sizes) for name, r in one.reductions.items()]
    results = [(local(n), text) for n, text in one.results]
    kinds = [_kind(memory, n) for n in number]
    if any(k is None for k in kinds):
        return None, tuple(number)
    return (one.sizes, reads, gathers, sums, one.assignments, results, one.flags, kinds), tuple(number)


def _places(gather: Gather) -> Sequence[Any]:
    return [(p.places.tobytes(), p.places.shape, p.dims) if isinstance(p, Picks) else p for p in gather.at]


def _kind(memory: Memory, n: int) -> Any:
    """How an array lies; None for one of pairs that goes by address."""
    ways = [kind for kind in ("in", "out") if (kind, n) in memory.outer]
    if any(memory.has_strides((kind, n)) for kind in ways):
        return None
    axes = memory.kept[n].axes if n in memory.kept else ()
    return ways, n in memory.rows, n in memory.kept, axes, memory.passes.sizes_of(n), len(memory.passes.labels[n])


@dataclass(eq=False)
class Repeats(Walks):
    """Loops over arrays."""

    addresses: Any = field(init=False)

    def _address_of(self, k: Any) -> Any:
        """Where array or table number k lies."""
        return self.builder.load(self.builder.gep(self.addresses, [k], source_etype=POINTER), typ=POINTER)

    def _take_out(self, row: Any, abreast: int) -> None:
        """The numbers of one row input, one after another, behind those of rows before it; of a size together."""
        first = 0
        for places, group in itertools.groupby(self.rows, lambda n: math.prod(self.passes.sizes_of(n))):
            many = len(list(group))
            with self._loop(many) as k:
                self._take_out_one(WHOLE(first), k, places, row, abreast)
            first += many

    def _take_out_one(self, first: Any, k: Any, places: int, row: Any, abreast: int) -> None:
        b = self.builder
        start = b.add(b.mul(b.and_(row, WHOLE(-self.count)), WHOLE(places)), b.and_(row, WHOLE(self.count - 1)))
        base = self._address_of(b.add(first, k))
        begins = WHOLE(list(self.rows.values())[first.constant])
        where = b.add(begins, b.mul(k, WHOLE(-(-places // self.count))))
        target = b.gep(self.scratch, [where], source_etype=self.vector)
        with self._loop(places) as place:
            source = b.gep(base, [b.add(start, b.mul(place, WHOLE(self.count)))], source_etype=self.element)
            one = b.load(source, typ=self.element, align=self.width)
            here = b.add(place, WHOLE(abreast * places))
            b.store(one, b.gep(target, [here], source_etype=self.element), align=self.width)

    @contextmanager
    def _repeated(self, run: Run) -> Iterator[None]:
        """A loop over passes of one form, in which the arrays of the first are those of each in turn."""
        if len(run.passes) == 1:
            yield
            return
        b, number = self.builder, len(self.outer) + len(self.tables)
        self.tables.append(numpy.array([self._places_of(arrays) for arrays in run.arrays], dtype=numpy.int64))
        with b.goto_entry_block():
            table = self._address_of(WHOLE(number))
        bases = dict(self.bases)
        with self._loop(len(run.passes)) as k:
            first = b.mul(k, WHOLE(self.tables[-1].shape[1]))
            take = (b.gep(table, [b.add(first, WHOLE(place))], source_etype=WHOLE) for place in itertools.count())
            for n in run.arrays[0]:
                if n in self.kept or n in self.rows:
                    self.moved[n] = b.load(next(take), typ=WHOLE)
                for key in self._by_address(n):
                    self.bases[key] = self._address_of(b.load(next(take), typ=WHOLE))
            yield
        self.bases, self.moved = bases, {}

    def _by_address(self, n: int) -> list[tuple[str, int]]:
        return [key for key in (("in", n), ("out", n)) if key in self.bases]

    def _places_of(self, arrays: Sequence[int]) -> list[int]:
        """Where arrays begin, and their numbers where they go by address."""
        found = []
        for n in arrays:
            found += [self.kept[n].start] if n in self.kept else [self.rows[n]] if n in self.rows else []
            found += [self.outer.index(key) for key in self._by_address(n)]
        return found
