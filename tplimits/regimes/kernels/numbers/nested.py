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
from tplimits.regimes.kernels.numbers.blocks import Blocks, aligned, plain
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
        self.code = compiled(str(self.lanes.module), self.lanes.level)
        self.call = self.code.function("run", 3)
        self.tables = [t.ctypes.data for t in self.lanes.tables]
        inputs, labels = self.passes.inputs, self.passes.labels
        passes, two = self.passes, len(inputs) == 2
        self.of_pairs = {(k, n): two and (k == "flag" or self.lanes.is_pairs(n)) for k, n in self.lanes.outer}
        self.places = {(k, n): math.prod(passes.sizes_of(n)) if k == "out" else 1 for k, n in self.lanes.outer}
        self.front = {n: tuple(x for x in labels[n] if x not in inputs) for _, n in self.lanes.outer}

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
        known: dict[int, Any] = dict(passes.constants)
        for n, step in passes.steps.items():
            if step is None:
                known[n] = given(passes.schedule.names[n])
            elif n not in passes.inside:
                values = [plain(known[v]) if isinstance(v, int) else v for v in step.values]
                known[n] = step.function(values, *step.fixed)
        return self._outcome(known, many, triangle)

    def _outcome(
        self, known: dict[int, Any], many: Sequence[int], triangle: bool
    ) -> tuple[list[Any], NDArray[numpy.bool_]]:
        """The same of all that is given."""
        passes = self.passes
        arrays = {key: self._array(key, known, many, triangle) for key in self.lanes.outer}
        addresses = [*(a.__array_interface__["data"][0] for a in arrays.values()), *self.tables]
        numbers = [0, many[0] if len(many) > 1 else 1, many[-1], int(triangle)]
        for key, a in arrays.items():
            numbers += [s // a.itemsize for s in a.strides[:2]] if self.of_pairs[key] else (0, 0)
        table = numpy.array(addresses, dtype=numpy.int64)
        self._called(table, numbers)
        kernels = passes.kernels
        values = [self._result(w, arrays, known, many) for w in passes.schedule.wanted[:kernels]]
        return values, self._flagged(arrays, known, many)

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

    def _array(self, key: tuple[str, int], known: Mapping[int, Any], many: Sequence[int], triangle: bool) -> Any:
        """A given array as the code reads it, or one for results."""
        kind, n = key
        if kind == "in":
            return self._laid_out(known[n], n)
        if self.of_pairs[key]:
            return self._empty((self.places[key], *many), triangle)
        return aligned((-(-many[0] // self.lanes.count), self.places[key], self.lanes.count), self.dtype)

    def _laid_out(self, value: Labelled | Blocks, n: int) -> NDArray[Any]:
        if isinstance(value, Blocks):
            return value.laid_out(self.lanes.count, self.dtype)
        labels = self.passes.labels[n]
        value = Labelled(value.array, labels if len(labels) == value.array.ndim else value.labels)
        inputs = [x for x in self.passes.inputs if x in labels]
        if self.lanes.is_pairs(n):
            array = value.at([*self.front[n], *inputs])
            found = self._empty((math.prod(array.shape[:-2]), *array.shape[-2:]), False)
            found[...] = array.reshape(found.shape)
            return found
        array = value.at([*inputs, *self.front[n]])
        if not inputs:
            return numpy.ascontiguousarray(array, dtype=self.dtype)
        return Blocks.of(Labelled(array, ()), self.lanes.count, self.dtype).array

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

    def _result(self, wanted: int | Labelled, arrays: Mapping[Any, Any], known: Mapping[int, Any], many: Any) -> Any:
        if isinstance(wanted, Labelled):
            return wanted
        if ("out", wanted) not in arrays:
            return known[wanted]
        array, inputs = arrays["out", wanted], self.passes.inputs
        sizes, labels = self.passes.sizes_of(wanted), (*inputs, *self.front[wanted])
        if len(inputs) == 1:
            return Blocks(array, many[0], sizes, labels)
        return Labelled(array.transpose(1, 2, 0).reshape(*many, *sizes), labels)

    def _flagged(
        self, arrays: Mapping[Any, Any], known: Mapping[int, Any], many: Sequence[int]
    ) -> NDArray[numpy.bool_]:
        """Where one of the flags is set at one of the places."""
        passes, inputs, total = self.passes, self.passes.inputs, numpy.zeros(many, dtype=bool)
        for (kind, _), array in arrays.items():
            if kind == "flag":
                total |= (array[0] if len(inputs) == 2 else array.reshape(-1)[: many[0]]) != 0
        for wanted in passes.schedule.wanted[passes.kernels :]:
            if ("flag", wanted) not in arrays:
                flag = wanted if isinstance(wanted, Labelled) else plain(known[wanted])
                inner = tuple(k for k, x in enumerate(flag.labels) if x not in inputs)
                labels = tuple(x for x in flag.labels if x in inputs)
                total |= Labelled(numpy.asarray((flag.array != 0).any(axis=inner)), labels).at(inputs)
        return total


def nested(passes: Passes, single: bool, lanes: int) -> Nested:
    """Passes as a compiled function; NotNested where they need more room than there is."""
    return Nested(passes, Lanes(passes, lanes, single))
