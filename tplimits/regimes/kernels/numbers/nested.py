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
from tplimits.regimes.kernels.numbers.blocks import Blocks, address, aligned, plain
from tplimits.regimes.kernels.numbers.forms import NotNested
from tplimits.regimes.kernels.numbers.labelled import Labelled
from tplimits.regimes.kernels.numbers.lanes import Lanes

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes import Passes

#: bytes of what one thread keeps between passes
_MOST_ROOM = 1 << 26
#: pairs times kept vectors from which on threads share the work
_SHARED = 1 << 22
#: inputs of the widest vector
_WIDEST = 16


@dataclass(eq=False)
class Nested:
    """The compiled function of some passes in one arithmetic."""

    passes: Passes
    lanes: Lanes
    code: Code = field(init=False)
    rooms: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        if self.bytes > _MOST_ROOM:
            raise NotNested("more room than a cache has")
        self.code = compiled(str(self.lanes.module), self.lanes.speed)
        self.call = self.code.function("run", 3)
        self.tables = [t.ctypes.data for t in self.lanes.tables]
        inputs, labels = self.passes.inputs, self.passes.labels
        inside, steps = self.passes.inside, self.passes.steps
        self.leaves = [(n, self.passes.schedule.names[n]) for n, step in steps.items() if step is None]
        self.before = [(n, step) for n, step in steps.items() if step is not None and n not in inside]
        passes, two = self.passes, len(inputs) == 2
        self.of_pairs = {(k, n): two and (k == "flag" or self.lanes.is_pairs(n)) for k, n in self.lanes.outer}
        self.places = {(k, n): math.prod(passes.sizes_of(n)) if k == "out" else 1 for k, n in self.lanes.outer}
        self.front = {n: tuple(x for x in labels[n] if x not in inputs) for _, n in self.lanes.outer}
        self.made = [key for key in self.lanes.outer if key[0] != "in" and not self.of_pairs[key]]
        self.strided = [(4 + 2 * k, key) for k, key in enumerate(self.lanes.outer) if self.of_pairs[key]]
        self.sizes = {n: passes.sizes_of(n) if kind != "flag" else () for kind, n in self.lanes.outer}
        self.flags = [key for key in self.lanes.outer if key[0] == "flag"]
        self.other_flags = [w for w in passes.schedule.wanted[passes.kernels :] if ("flag", w) not in self.flags]

    @property
    def dtype(self) -> Any:
        """Of all arrays."""
        return numpy.float32 if self.lanes.single else numpy.float64

    @property
    def bytes(self) -> int:
        """Of what one thread keeps between passes."""
        return self.lanes.room * self.lanes.count * self.lanes.width

    def run(
        self, given: Callable[[Any], Labelled | Blocks], many: Sequence[int], triangle: bool
    ) -> tuple[list[Any], NDArray[numpy.bool_]]:
        """The results, and where a law is flagged; `given` finds the leaves, `many` are the numbers of inputs.

        Results of pairs are labelled arrays, of single inputs blocks.
        """
        passes = self.passes
        known: dict[int, Any] = {**passes.constants, **{n: given(name) for n, name in self.leaves}}
        for n, step in self.before:
            values = [plain(known[v]) if isinstance(v, int) else v for v in step.values]
            known[n] = step.function(values, *step.fixed)
        return self._outcome(known, many, triangle)

    def _outcome(
        self, known: dict[int, Any], many: Sequence[int], triangle: bool
    ) -> tuple[list[Any], NDArray[numpy.bool_]]:
        """The same of all that is given."""
        passes = self.passes
        arrays = self._singles(many[0])
        arrays |= {key: self._array(key, known, many, triangle) for key in self.lanes.outer if key not in arrays}
        addresses = [arrays[key].address for key in self.lanes.outer] + self.tables
        numbers = [0, many[0] if len(many) > 1 else 1, many[-1], int(triangle)] + [0] * (2 * len(arrays))
        for place, key in self.strided:
            numbers[place : place + 2] = (s // arrays[key].array.itemsize for s in arrays[key].array.strides[:2])
        table = numpy.array(addresses, dtype=numpy.int64)
        self._called(table, numbers)
        kernels = passes.kernels
        values = [self._result(w, arrays, known, many) for w in passes.schedule.wanted[:kernels]]
        return values, self._flagged(arrays, known, many)

    def _singles(self, many: int) -> dict[tuple[str, int], Blocks]:
        """Results of single inputs, one after another in one piece of memory."""
        lanes, blocks = self.lanes.count, -(-many // self.lanes.count)
        whole = aligned((sum(self.places[key] for key in self.made) * blocks * lanes,), self.dtype)
        found, start, first = {}, 0, address(whole)
        for key in self.made:
            end, n = start + self.places[key] * blocks * lanes, key[1]
            array = whole[start:end].reshape(blocks, self.places[key], lanes)
            labels = (*self.passes.inputs, *self.front[n])
            found[key] = Blocks(array, many, self.sizes[n], labels, first + start * whole.itemsize)
            start = end
        return found

    def _called(self, table: NDArray[numpy.int64], numbers: Sequence[int]) -> None:
        """The code on all rows, by several threads where there is much to do: each has rows of its own, far apart."""
        _, rows, columns, *_ = numbers
        self._shared(table, numbers, rows, rows * columns * self.lanes.room < _SHARED)

    def _shared(self, table: NDArray[numpy.int64], numbers: Sequence[int], rows: int, few: bool) -> None:
        def some(first: int, last: int) -> None:
            counts = numpy.array([first, last, *numbers[2:]], dtype=numpy.int64)
            self.call(table.ctypes.data, counts.ctypes.data, self._room())

        threads = numba.get_num_threads()
        if threads == 1 or rows == 1 or few:
            some(0, rows)
            return
        step = -(-rows // (8 * threads))
        with ThreadPoolExecutor(threads) as pool:
            parts = [pool.submit(some, k, min(k + step, rows)) for k in range(0, rows, step)]
        for part in parts:
            part.result()

    def _array(self, key: tuple[str, int], known: Mapping[int, Any], many: Sequence[int], triangle: bool) -> Blocks:
        """A given array as the code reads it, or one for results."""
        kind, n = key
        if kind == "in":
            return self._laid_out(known[n], n)
        return _found(self._empty((self.places[key], *many), triangle))

    def _laid_out(self, value: Labelled | Blocks, n: int) -> Blocks:
        if isinstance(value, Blocks):
            return value.laid_out(self.lanes.count, self.dtype)
        labels = self.passes.labels[n]
        value = Labelled(value.array, labels if len(labels) == value.array.ndim else value.labels)
        inputs = [x for x in self.passes.inputs if x in labels]
        if self.lanes.is_pairs(n):
            array = value.at([*self.front[n], *inputs])
            found = self._empty((math.prod(array.shape[:-2]), *array.shape[-2:]), False)
            found[...] = array.reshape(found.shape)
            return _found(found)
        array = value.at([*inputs, *self.front[n]])
        if not inputs:
            return _found(numpy.ascontiguousarray(array, dtype=self.dtype))
        return Blocks.of(Labelled(array, ()), self.lanes.count, self.dtype)

    def _empty(self, shape: tuple[int, ...], zero: bool) -> NDArray[Any]:
        """An array of pairs, (places, rows, columns), with whole vectors behind the last column."""
        last = -(-shape[-1] // _WIDEST) * _WIDEST
        return (numpy.zeros if zero else numpy.empty)((*shape[:-1], last), self.dtype)[..., : shape[-1]]

    def _room(self) -> int:
        """The address of memory for what stays between passes, zero where nothing writes."""
        if not hasattr(self.rooms, "memory"):
            self.rooms.memory = numpy.zeros(self.bytes + 64, dtype=numpy.uint8)
        start: int = self.rooms.memory.ctypes.data
        return -(-start // 64) * 64

    def _result(self, wanted: int | Labelled, arrays: Mapping[Any, Blocks], known: Mapping[int, Any], many: Any) -> Any:
        if isinstance(wanted, Labelled):
            return wanted
        if ("out", wanted) not in arrays:
            return known[wanted]
        found, inputs = arrays["out", wanted], self.passes.inputs
        if len(inputs) == 1:
            return found
        labels = (*inputs, *self.front[wanted])
        return Labelled(found.array.transpose(1, 2, 0).reshape(*many, *self.sizes[wanted]), labels)

    def _flagged(
        self, arrays: Mapping[Any, Blocks], known: Mapping[int, Any], many: Sequence[int]
    ) -> NDArray[numpy.bool_]:
        """Where one of the flags is set at one of the places."""
        inputs, total = self.passes.inputs, numpy.zeros(many, dtype=bool)
        for key in self.flags:
            array = arrays[key].array
            total |= (array[0] if len(inputs) == 2 else array.reshape(-1)[: many[0]]) != 0
        for wanted in self.other_flags:
            flag = wanted if isinstance(wanted, Labelled) else plain(known[wanted])
            inner = tuple(k for k, x in enumerate(flag.labels) if x not in inputs)
            labels = tuple(x for x in flag.labels if x in inputs)
            total |= Labelled(numpy.asarray((flag.array != 0).any(axis=inner)), labels).at(inputs)
        return total


def _found(array: NDArray[Any]) -> Blocks:
    """An array that is not in blocks, by its address."""
    return Blocks(array, 0, (), ())


def nested(passes: Passes, single: bool, lanes: int) -> Nested:
    """Passes as a compiled function; NotNested where they need more room than there is."""
    return Nested(passes, Lanes(passes, lanes, single))
