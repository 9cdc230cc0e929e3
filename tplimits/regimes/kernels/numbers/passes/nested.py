"""A tape run as one compiled function: arrays laid out for it, room for each thread, results as labelled arrays."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numba
import numpy
from numpy.typing import NDArray

from tplimits.numbers.loops.machine import Code, compiled
from tplimits.regimes.kernels.numbers.passes.blocks import Blocks, Made, Place, address, aligned, plain
from tplimits.regimes.kernels.numbers.passes.forms import NotNested
from tplimits.regimes.kernels.numbers.passes.lanes import COLUMNS, FIRST, HEAD, LAST, TRIANGLE, Lanes
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, bare
from tplimits.regimes.kernels.numbers.tables.laws import half_squared_distance

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.passes import Passes

#: bytes of what one thread keeps between passes; beyond its cache, too, they are faster than passes over whole arrays
_MOST_ROOM = 1 << 30
#: pairs times kept vectors from which on threads share the work
_SHARED = 1 << 22
#: inputs of the widest vector
_WIDEST = 16
#: rows that go abreast where there is nothing but arithmetic: each waits for its own results, and columns are read once
_ABREAST = 2
#: what is done for all pairs by one product of matrices
_DISTANCE = bare(half_squared_distance)
#: numbers of inputs whose frames are kept
_REMEMBERED = 64


@dataclass(frozen=True, eq=False)
class Frame:
    """Where results go for some numbers of inputs, all in one piece of memory."""

    #: how many numbers are results of single inputs; places, rows and columns of all results of pairs
    single: int
    pairs: tuple[int, ...]
    #: addresses of all arrays and tables, of results relative to the first
    table: NDArray[numpy.int64]
    #: the whole numbers that the code is given
    numbers: NDArray[numpy.int64]
    #: results of single inputs; bytes before each, and of a block of each
    places: Sequence[Place]
    offsets: NDArray[numpy.int64]
    strides: NDArray[numpy.int64]
    #: where the flag is
    flags: int


@dataclass(eq=False)
class Nested:
    """The compiled function of some passes in one arithmetic."""

    passes: Passes
    lanes: Lanes
    code: Code = field(init=False)
    rooms: threading.local = field(default_factory=threading.local)
    frames: dict[tuple[int, ...], Frame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bytes > _MOST_ROOM:
            raise NotNested("more room than a thread has")
        self.code = compiled(str(self.lanes.module), self.lanes.rewritten)
        self.call = self.code.function("run", 3)
        self.tables = [t.ctypes.data for t in self.lanes.tables]
        passes = self.passes
        inputs, labels, inside, steps = passes.inputs, passes.labels, passes.inside, passes.steps
        self.dtype = numpy.float32 if self.lanes.single else numpy.float64
        self.leaves = [(n, passes.schedule.names[n]) for n, step in steps.items() if step is None]
        self.before = [(n, step) for n, step in steps.items() if step is not None and n not in inside]
        self.given = [n for kind, n in self.lanes.outer if kind == "in"]
        self.sizes = {n: passes.sizes_of(n) for _, n in self.lanes.outer}
        self.front = {n: tuple(x for x in labels[n] if x not in inputs) for _, n in self.lanes.outer}
        self.flags = len(passes.flags[:1])
        self.other_flags = [w for w in passes.schedule.wanted[passes.kernels :] if w not in passes.flags]
        #: places of results, one after another
        self.slots: dict[tuple[str, int], slice] = {}
        for kind, n in self.lanes.outer[len(self.given) :]:
            start = next(reversed(self.slots.values())).stop if self.slots else 0
            self.slots[kind, n] = slice(start, start + (math.prod(self.sizes[n]) if kind == "out" else 1))
        wanted = passes.schedule.wanted[: passes.kernels]
        made = [n for kind, n in self.slots if kind == "out"]
        #: results in the order in which they are wanted, where they are all that is wanted
        self.results: list[Any] = list(wanted) if all(w in made for w in wanted) else made
        leaves = dict(self.leaves)
        names: list[Any] = [leaves.get(n, ("made",)) for n in self.given]
        if not names:  # kernels that no input enters
            raise NotNested
        #: side and place of what is given, where all of it is of single inputs and nothing else is read
        self.rows: tuple[NDArray[numpy.int64], NDArray[numpy.int64]] | None = None
        alone = len(self.leaves) == len(names) and not self.before and not self.other_flags
        if alone and all(name[0] == "row" for name in names):
            sides, places = numpy.array([name[1:3] for name in names], dtype=numpy.int64).T
            self.rows = sides, places

    @property
    def bytes(self) -> int:
        """Of what one thread keeps between passes."""
        return self.lanes.room * self.lanes.count * self.lanes.abreast * self.lanes.width

    def run(
        self,
        given: Callable[[Any], Labelled | Blocks],
        many: Sequence[int],
        triangle: bool = False,
        rows: Sequence[int] = (),
        made: Mapping[int, Sequence[Any]] | None = None,
    ) -> tuple[Sequence[Any], NDArray[numpy.bool_]]:
        """The results, and where a law is flagged; `given` finds the leaves, `many` are the numbers of inputs.

        `made` are the quantities of single inputs of both sides, which need no leaves if there is nothing else.
        Results of pairs are labelled arrays, of single inputs blocks.  Of pairs, those above the diagonal alone
        (`triangle`), or those of a few `rows`: others are zero.
        """
        passes, addresses = self.passes, None if made is None else self._addresses(made)
        if addresses is not None:
            return self._computed({}, tuple(many), triangle, rows, addresses)
        known: dict[int, Any] = {**passes.constants, **{n: given(name) for n, name in self.leaves}}
        for n, step in self.before:
            values = [self._named(known[v], v) if isinstance(v, int) else v for v in step.values]
            if step.function is _DISTANCE:  # in the arithmetic of the data
                values = [Labelled(v.array.astype(self.dtype, copy=False), v.labels) for v in values]
            known[n] = step.function(values, *step.fixed)
        return self._outcome(known, tuple(many), triangle, rows)

    def _addresses(self, made: Mapping[int, Sequence[Any]]) -> NDArray[numpy.int64] | None:
        """Where what is given lies, if all of it is laid out in one piece of memory for each side."""
        if self.rows is None:
            return None
        sides, places = self.rows
        known: dict[int, NDArray[numpy.int64]] = {}
        for side, rows in made.items():
            if not isinstance(rows, Made) or not rows.is_laid_out(self.lanes.count, self.dtype):
                return None
            known[side] = rows.addresses
        return numpy.where(sides == 1, known[1].take(places, mode="clip"), known[2].take(places, mode="clip"))

    def _named(self, value: Labelled | Blocks, n: int) -> Labelled:
        """An array with the names that it has on this side."""
        return Labelled(value.plain.array, self.passes.labels[n]) if isinstance(value, Blocks) else value

    def _outcome(
        self, known: dict[int, Any], many: tuple[int, ...], triangle: bool, rows: Sequence[int]
    ) -> tuple[Sequence[Any], NDArray[numpy.bool_]]:
        """The same of all that is given."""
        values, met = self._computed(known, many, triangle, rows)
        return values, self._flagged(met, known)

    def _computed(
        self,
        known: dict[int, Any],
        many: tuple[int, ...],
        triangle: bool,
        rows: Sequence[int],
        addresses: NDArray[numpy.int64] | None = None,
    ) -> tuple[Sequence[Any], NDArray[numpy.bool_]]:
        """The results of the code, and its flags; `addresses` are where what is given lies, if that is known."""
        frame = self._frame(many)
        of_pairs = (numpy.zeros if triangle or rows else numpy.empty)(frame.pairs, self.dtype) if frame.pairs else None
        made = aligned((frame.single,), self.dtype) if of_pairs is None else of_pairs
        table, numbers, start = frame.table.copy(), frame.numbers.copy(), address(made)
        held = [self._laid_out(known[n], n) for n in self.given] if addresses is None else []  # alive until the end
        table[: len(self.given)] = [h.address for h in held] if addresses is None else addresses
        table[len(self.given) : len(self.lanes.outer)] += start
        numbers[TRIANGLE] = triangle
        self._called(table, numbers, rows)
        if of_pairs is not None:
            found = {n: self._of_pairs(of_pairs, n, many) for n in self.results}
            flags = of_pairs[frame.flags :, :, : many[1]]
        else:
            lanes = -(-many[0] // self.lanes.count) * self.lanes.count
            flags = made[frame.flags :].reshape(self.flags, lanes)[:, : many[0]]
            blocks = Made(made, start, many[0], frame.places, frame.offsets, frame.strides)
            if self.results == self.passes.schedule.wanted[: self.passes.kernels]:
                return blocks, (flags != 0).any(axis=0)
            found = dict(zip(self.results, blocks, strict=True))
        values = [
            w if isinstance(w, Labelled) else found[w] if w in found else known[w]
            for w in self.passes.schedule.wanted[: self.passes.kernels]
        ]
        return values, (flags != 0).any(axis=0)

    def _frame(self, many: tuple[int, ...]) -> Frame:
        """Where results go for so many inputs."""
        frame = self.frames.get(many)  # another thread may forget it at any moment
        if frame is None:
            if len(self.frames) > _REMEMBERED:
                self.frames.clear()
            frame = self.frames[many] = self._framed(many)
        return frame

    def _framed(self, many: tuple[int, ...]) -> Frame:
        lanes, blocks, width = self.lanes.count, -(-many[0] // self.lanes.count), numpy.dtype(self.dtype).itemsize
        columns, two = -(-many[-1] // _WIDEST) * _WIDEST, len(many) > 1
        rows, each = (many[0], many[0] * columns) if two else (1, blocks * lanes)
        table = numpy.array([0] * len(self.lanes.outer) + self.tables, dtype=numpy.int64)
        numbers = numpy.array([0, rows, many[-1], 0] + [0] * (2 * len(self.lanes.outer)), dtype=numpy.int64)
        for k, n in enumerate(n for _, n in self.lanes.outer):
            if two and (k >= len(self.given) or self.lanes.is_pairs(n)):
                numbers[HEAD + 2 * k : HEAD + 2 * k + 2] = each, columns
        for k, slot in enumerate(self.slots.values(), len(self.given)):
            table[k] = slot.start * each * width
        found = []
        for n in () if two else self.results:
            slot = self.slots["out", n]
            shape, labels = (blocks, slot.stop - slot.start, lanes), (*self.passes.inputs, *self.front[n])
            found.append(Place(slot.start * each, slot.stop * each, shape, self.sizes[n], labels))
        before = numpy.array([place.first * width for place in found], dtype=numpy.int64)
        strides = numpy.array([math.prod(place.shape[1:]) * width for place in found], dtype=numpy.int64)
        places = max((s.stop for s in self.slots.values()), default=0)
        flags = places - self.flags
        if two:
            return Frame(0, (places, rows, columns), table, numbers, found, before, strides, flags)
        return Frame(places * each, (), table, numbers, found, before, strides, flags * each)

    def _called(self, table: NDArray[numpy.int64], numbers: NDArray[numpy.int64], some: Sequence[int]) -> None:
        """The code on all rows, or on some: by several threads where there is much, each with rows of its own."""
        rows, columns = int(numbers[LAST]), int(numbers[COLUMNS])
        for row in some:
            self._part(table, numbers, row, row + 1)
        if not some:
            self._shared(table, numbers, rows, rows * columns * self.lanes.room < _SHARED)

    def _part(self, table: NDArray[numpy.int64], numbers: NDArray[numpy.int64], first: int, last: int) -> None:
        counts = numbers.copy()
        counts[FIRST], counts[LAST] = first, last
        self.call(table.ctypes.data, counts.ctypes.data, self._room())

    def _shared(self, table: NDArray[numpy.int64], numbers: NDArray[numpy.int64], rows: int, few: bool) -> None:
        threads = 1 if few else numba.get_num_threads()
        if threads == 1 or rows == 1:
            self._part(table, numbers, 0, rows)
            return
        step = -(-rows // (8 * threads))
        with ThreadPoolExecutor(threads) as pool:
            parts = [pool.submit(self._part, table, numbers, k, min(k + step, rows)) for k in range(0, rows, step)]
        for part in parts:
            part.result()

    def _laid_out(self, value: Labelled | Blocks, n: int) -> Blocks:
        """A given array as the code reads it."""
        if isinstance(value, Blocks):
            return value.laid_out(self.lanes.count, self.dtype)
        labels = self.passes.labels[n]
        value = Labelled(value.array, labels if len(labels) == value.array.ndim else value.labels)
        inputs = [x for x in self.passes.inputs if x in labels]
        if self.lanes.is_pairs(n):
            array = value.at([*self.front[n], *inputs])
            rows, columns = array.shape[-2:]
            if array.dtype == self.dtype and array.flags.c_contiguous and columns % _WIDEST == 0:
                return _found(array)
            whole = numpy.empty((math.prod(array.shape[:-2]), rows, -(-columns // _WIDEST) * _WIDEST), self.dtype)
            whole[..., :columns] = array.reshape(-1, rows, columns)
            return _found(whole)
        array = value.at([*inputs, *self.front[n]])
        if not inputs:
            return _found(numpy.ascontiguousarray(array, dtype=self.dtype))
        return Blocks.of(Labelled(array, ()), self.lanes.count, self.dtype)

    def _room(self) -> int:
        """The address of memory for what stays between passes, zero where nothing writes."""
        if not hasattr(self.rooms, "memory"):
            self.rooms.memory = numpy.zeros(self.bytes + 64, dtype=numpy.uint8)
            self.rooms.start = -(-self.rooms.memory.ctypes.data // 64) * 64
        return self.rooms.start

    def _of_pairs(self, pairs: NDArray[Any], n: int, many: tuple[int, ...]) -> Labelled:
        """A result of pairs, inputs first."""
        array = pairs[self.slots["out", n], :, : many[1]].transpose(1, 2, 0)
        return Labelled(array.reshape(*many, *self.sizes[n]), (*self.passes.inputs, *self.front[n]))

    def _flagged(self, total: NDArray[numpy.bool_], known: Mapping[int, Any]) -> NDArray[numpy.bool_]:
        """Where one of the flags is set at one of the places; `total` are those of the code."""
        inputs = self.passes.inputs
        for wanted in self.other_flags:
            flag = wanted if isinstance(wanted, Labelled) else plain(known[wanted])
            inner = tuple(k for k, x in enumerate(flag.labels) if x not in inputs)
            labels = tuple(x for x in flag.labels if x in inputs)
            total = total | Labelled(numpy.asarray((flag.array != 0).any(axis=inner)), labels).at(inputs)
        return total


def _found(array: NDArray[Any]) -> Blocks:
    """An array that is not in blocks, by its address."""
    return Blocks(array, 0, (), ())


def nested(passes: Passes, single: bool, lanes: int) -> Nested:
    """Passes as a compiled function; NotNested where they need more room than there is."""
    plain = len(passes.inputs) == 2 and not any(p.sizes or p.gathers or p.reductions for p in passes.passes)
    return Nested(passes, Lanes(passes, lanes, single, _ABREAST if plain else 1))
