"""A tape run as one compiled function: arrays laid out for it, room for each thread, results as labelled arrays."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.numbers.loops.machine import Code, compiled
from tplimits.regimes.kernels.numbers.labelled import Labelled
from tplimits.regimes.kernels.numbers.lanes import Lanes
from tplimits.regimes.kernels.numbers.passes import NotNested, Passes

#: inputs behind the last one that vectors may read
_BEYOND = 16
#: bytes of what one thread keeps between passes
_MOST_ROOM = 1 << 26


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
        self.code = compiled(str(self.lanes.module))
        self.call = self.code.function("run", 3)

    @property
    def dtype(self) -> Any:
        """Of all arrays."""
        return numpy.float32 if self.lanes.single else numpy.float64

    @property
    def bytes(self) -> int:
        """Of what one thread keeps between passes."""
        return self.lanes.room * self.lanes.count * self.lanes.width

    def run(
        self, given: Callable[[Any], Labelled], many: Sequence[int], triangle: bool
    ) -> tuple[list[Labelled], NDArray[numpy.bool_]]:
        """The results, and where a law is flagged; `given` finds the leaves, `many` are the numbers of inputs."""
        passes = self.passes
        known = dict(passes.constants)
        for n, step in passes.steps.items():
            if step is None:
                known[n] = given(passes.schedule.names[n])
            elif n not in passes.inside:
                values = [known[v] if isinstance(v, int) else v for v in step.values]
                known[n] = step.function(values, *step.fixed)
        arrays, numbers = [], [0, many[0] if len(many) > 1 else 1, many[-1], int(triangle)]
        for kind, n in self.lanes.outer:
            array = self._laid_out(known[n], n) if kind == "in" else self._empty(kind, n, many, triangle)
            arrays.append(array)
            numbers += self._strides(array, kind, n)
        room = self._room()
        addresses = numpy.array([a.ctypes.data for a in (*arrays, *self.lanes.tables)], dtype=numpy.int64)
        counts = numpy.array(numbers, dtype=numpy.int64)
        if many[0] and numbers[1]:
            self.call(addresses.ctypes.data, counts.ctypes.data, room)
        found = {key: a for key, a in zip(self.lanes.outer, arrays, strict=True) if key[0] != "in"}
        kernels = passes.kernels
        values = [self._result(w, found, known) for w in passes.schedule.wanted[:kernels]]
        flags = [Labelled(a, passes.inputs) for (kind, _), a in found.items() if kind == "flag"]
        others = [w for w in passes.schedule.wanted[kernels:] if ("flag", w) not in found]
        flags += [w if isinstance(w, Labelled) else known[w] for w in others]
        return values, self._any(flags, many)

    def _any(self, flags: Sequence[Labelled], many: Sequence[int]) -> NDArray[numpy.bool_]:
        """Where one of some flags is set at one of the places."""
        total = numpy.zeros(many, dtype=bool)
        for flag in flags:
            inner = tuple(k for k, x in enumerate(flag.labels) if x not in self.passes.inputs)
            labels = tuple(x for x in flag.labels if x in self.passes.inputs)
            total |= Labelled((flag.array != 0).any(axis=inner), labels).at(self.passes.inputs)
        return total

    def _room(self) -> int:
        """The address of memory for what stays between passes, zero where nothing writes."""
        if not hasattr(self.rooms, "memory"):
            self.rooms.memory = numpy.zeros(self.bytes + 64, dtype=numpy.uint8)
        start: int = self.rooms.memory.ctypes.data
        return -(-start // 64) * 64

    def _labels(self, n: int) -> tuple[str, ...]:
        """Places first, then rows, then columns."""
        inputs, labels = self.passes.inputs, self.passes.labels[n]
        return (*(x for x in labels if x not in inputs), *(x for x in inputs if x in labels))

    def _laid_out(self, value: Labelled, n: int) -> NDArray[Any]:
        """A given array as the code reads it, with room behind the last input."""
        labels = self.passes.labels[n]
        named = Labelled(value.array, labels if len(labels) == value.array.ndim else value.labels)
        array = named.at(self._labels(n))
        if array.dtype == self.dtype and is_roomy(array) and self._is_flat(array, n):
            return array
        if self.passes.inputs[-1] not in labels:
            return numpy.ascontiguousarray(array, dtype=self.dtype)
        found = roomy(array.shape, self.dtype)
        found[...] = array
        return found

    def _is_flat(self, array: NDArray[Any], n: int) -> bool:
        """Whether the places follow each other at one distance, columns at that of neighbours."""
        size, front = array.itemsize, len(self.passes.sizes_of(n))
        even = all(
            array.strides[k] == array.strides[k + 1] * array.shape[k + 1] or array.shape[k] == 1
            for k in range(front - 1)
        )
        last = self.passes.inputs[-1] in self.passes.labels[n]
        return even and (not last or array.strides[-1] == size) and all(s % size == 0 for s in array.strides)

    def _strides(self, array: NDArray[Any], kind: str, n: int) -> list[int]:
        front = len(self.passes.sizes_of(n)) if kind != "flag" else 0
        steps = [s // array.itemsize for s in array.strides]
        places = steps[front - 1] if front else 0
        rows = kind == "flag" or self.passes.inputs[0] in self.passes.labels[n]
        return [places, steps[front] if rows and len(self.passes.inputs) == 2 else 0]

    def _empty(self, kind: str, n: int, many: Sequence[int], triangle: bool) -> NDArray[Any]:
        sizes = self.passes.sizes_of(n) if kind == "out" else ()
        return roomy((*sizes, *many), self.dtype, fill=triangle)

    def _result(self, wanted: int | Labelled, found: dict[Any, Any], known: dict[int, Labelled]) -> Labelled:
        if isinstance(wanted, Labelled):
            return wanted
        if ("out", wanted) not in found:
            return known[wanted]
        inputs = self.passes.inputs
        array = numpy.moveaxis(found["out", wanted], range(-len(inputs), 0), range(len(inputs)))
        labels = self.passes.labels[wanted]
        return Labelled(array, (*inputs, *(x for x in labels if x not in inputs)))


def roomy(shape: Sequence[int], dtype: Any, fill: bool = True) -> NDArray[Any]:
    """An array with room behind each last entry that vectors may read and write."""
    last = -(-shape[-1] // 8) * 8 + _BEYOND
    make = numpy.zeros if fill else numpy.empty
    found = make((*shape[:-1], last), dtype)
    assert found.base is None
    return found[..., : shape[-1]]


def is_roomy(array: NDArray[Any]) -> bool:
    """Whether an array is part of one with such room: from its memory alone."""
    base = array.base
    while isinstance(base, numpy.ndarray) and base.base is not None:
        base = base.base
    if not isinstance(base, numpy.ndarray) or not base.flags.c_contiguous or base.shape[-1] % 8:
        return False
    offset = (array.ctypes.data - base.ctypes.data) // base.itemsize
    step = base.shape[-1]
    last = sum((n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides, strict=True))
    return bool(
        base.dtype == array.dtype and (offset + last) % step + _BEYOND <= step and math.prod(base.shape) >= step
    )


def nested(passes: Passes, single: bool, columns: int) -> Nested:
    """Passes as a compiled function; NotNested where they need more room than there is."""
    count = 16 if single and columns > 8 else 8
    return Nested(passes, Lanes(passes, count, single))
