"""Quantities of single inputs as compiled passes read and write them: some inputs beside each other, in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.regimes.kernels.numbers.tables.labelled import Labelled
from tplimits.regimes.kernels.numbers.tables.places import batch


@dataclass(eq=False, slots=True)
class Blocks:
    """A quantity of one input, its inputs beside each other in blocks: (blocks, places, lanes)."""

    array: NDArray[Any]
    many: int
    sizes: tuple[int, ...]
    labels: tuple[str, ...]
    #: where the array begins in memory, if that is known
    start: int | None = None

    @property
    def address(self) -> int:
        """Where the array begins in memory."""
        return address(self.array) if self.start is None else self.start

    @classmethod
    def of(cls, value: Labelled, lanes: int, dtype: Any) -> Blocks:
        """From an array whose first dimension is that of inputs."""
        many, *sizes = value.array.shape
        places = math.prod(sizes)
        array = aligned((-(-many // lanes), places, lanes), dtype)
        whole, flat = many // lanes, value.array.reshape(many, places)
        array[:whole] = flat[: whole * lanes].reshape(whole, lanes, places).transpose(0, 2, 1)
        # lanes beyond the last input are computed along: what memory held there before might overflow
        array[whole:] = 0
        array[whole:, :, : many % lanes] = flat[whole * lanes :].T
        return cls(array, many, tuple(sizes), value.labels)

    @property
    def plain(self) -> Labelled:
        """The array (inputs, *sizes)."""
        blocks, places, lanes = self.array.shape
        whole = self.array.transpose(0, 2, 1).reshape(blocks * lanes, places)[: self.many]
        return Labelled(whole.reshape(self.many, *self.sizes), self.labels)

    def laid_out(self, lanes: int, dtype: Any) -> Blocks:
        """In blocks of so many inputs."""
        blocks, places, mine = self.array.shape
        if mine == lanes and self.array.dtype == dtype:
            return self
        # no whole number of these blocks makes one of the others: inputs first, and again
        if lanes % mine:
            return Blocks.of(self.plain, lanes, dtype)
        together = lanes // mine
        array = aligned((-(-blocks // together), places, lanes), dtype)
        parts = array.reshape(len(array), places, together, mine)
        for k in range(together):
            some = self.array[k::together]
            parts[: len(some), :, k] = some
            parts[len(some) :, :, k] = 0
        return Blocks(array, self.many, self.sizes, self.labels)

    def some(self, part: slice | NDArray[numpy.intp]) -> Blocks | Labelled:
        """A few inputs; whole blocks stay where they are."""
        lanes = self.array.shape[2]
        if isinstance(part, slice):
            first, last, _ = part.indices(self.many)
            # a part that begins within a block would have its lanes moved
            if first % lanes == 0:
                return Blocks(self.array[first // lanes : -(-last // lanes)], last - first, self.sizes, self.labels)
            part = numpy.arange(first, last)
        picked = self.array[part // lanes, :, part % lanes]
        return Labelled(picked.reshape(len(part), *self.sizes), self.labels)


@dataclass(frozen=True)
class Place:
    """Where a quantity of one input lies among others: its first and its last number, its blocks."""

    first: int
    last: int
    shape: tuple[int, int, int]
    sizes: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Made(Sequence[Any]):
    """Quantities of one input in one piece of memory, each `Blocks` when it is asked for; inputs from a block on."""

    memory: NDArray[Any]
    start: int
    many: int
    places: Sequence[Place]
    #: of each the bytes before it, and those of a block
    offsets: NDArray[numpy.int64]
    strides: NDArray[numpy.int64]
    first: int = 0

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, k: Any) -> Any:
        place = self.places[k]
        array = self.memory[place.first : place.last].reshape(place.shape)
        blocks = array[self.first : self.first + -(-self.many // place.shape[2])]
        start = self.start + place.first * self.memory.itemsize + self.first * array.strides[0]
        return Blocks(blocks, self.many, place.sizes, place.labels, start)

    @property
    def addresses(self) -> NDArray[numpy.int64]:
        """Where each begins in memory."""
        return self.offsets + self.strides * self.first + self.start

    @property
    def lanes(self) -> int:
        """How many inputs are beside each other."""
        return self.places[0].shape[2] if self.places else 1

    def is_laid_out(self, lanes: int, dtype: Any) -> bool:
        """Whether they are in blocks of so many inputs."""
        return self.memory.dtype == dtype and self.lanes == lanes

    def laid_out(self, lanes: int, dtype: Any) -> Made:
        """In blocks of so many inputs, a multiple of those that are beside each other; all of them, in one piece."""
        together, width, places = lanes // self.lanes, numpy.dtype(dtype).itemsize, []
        blocks = -(-self.places[0].shape[0] // together)
        sizes = [place.shape[1] * lanes for place in self.places]
        ends = numpy.cumsum([0, *sizes]) * blocks
        memory = aligned((int(ends[-1]),), dtype)
        for place, first, last in zip(self.places, ends.tolist(), ends[1:].tolist(), strict=False):
            before, inner, mine = place.shape
            old, new = self.memory[place.first : place.last].reshape(place.shape), memory[first:last]
            parts = new.reshape(blocks, inner, together, mine)
            whole = before // together
            parts[:whole] = old[: whole * together].reshape(whole, together, inner, mine).transpose(0, 2, 1, 3)
            if whole < blocks:
                parts[whole:] = 0
                parts[whole, :, : before - whole * together] = old[whole * together :].transpose(1, 0, 2)
            places.append(Place(first, last, (blocks, inner, lanes), place.sizes, place.labels))
        strides = numpy.array(sizes, dtype=numpy.int64) * width
        return Made(memory, address(memory), self.many, places, ends[:-1] * width, strides)

    def some(self, part: slice | NDArray[numpy.intp]) -> Sequence[Any]:
        """Those of a few inputs."""
        if isinstance(part, slice):
            first, last, _ = part.indices(self.many)
            if first % self.lanes == 0:
                return replace(self, many=last - first, first=self.first + first // self.lanes)
        return [row.some(part) for row in self]


@dataclass(frozen=True, eq=False)
class Stack(Sequence[Labelled]):
    """Quantities of inputs in one array, (quantities, inputs)."""

    array: NDArray[Any]

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: Any) -> Any:
        return Labelled(self.array[place], (batch(1),))

    def some(self, part: slice | NDArray[numpy.intp]) -> Stack:
        """Those of a few inputs."""
        return Stack(self.array[:, part])


@dataclass(frozen=True, eq=False)
class Own:
    """Rows of some inputs of a side, kernels with themselves last; which inputs met a nearly singular law."""

    rows: Sequence[Any]
    near: NDArray[numpy.bool_]

    def some(self, part: slice | NDArray[numpy.intp]) -> Own:
        """Those of a few inputs."""
        many = len(self.near)
        if isinstance(part, slice) and part.indices(many) == (0, many, 1):
            return self
        whole = isinstance(self.rows, (Made, Stack))
        rows = self.rows.some(part) if whole else [_some(r, part) for r in self.rows]  # type: ignore[attr-defined]
        return Own(rows, self.near[part])

    def row(self, place: int) -> Labelled:
        """One of them, inputs first."""
        found = self.rows[place]
        return found.plain if isinstance(found, Blocks) else found

    def stacked(self, places: Any) -> NDArray[Any]:
        """Some that are numbers of inputs, side by side."""
        if isinstance(self.rows, Stack):
            return self.rows.array[places]
        some = range(len(self.rows))[places] if isinstance(places, slice) else places
        found = numpy.empty((len(some), len(self.near)))
        for k, place in enumerate(some):
            found[k] = self.row(place).array
        return found

    def laid_out(self, lanes: int, dtype: Any) -> Own:
        """In blocks of so many inputs."""
        if isinstance(self.rows, Made) and self.rows.is_laid_out(lanes, dtype):
            return self
        if isinstance(self.rows, Made) and not self.rows.first and len(self.rows) and lanes % self.rows.lanes == 0:
            return Own(self.rows.laid_out(lanes, dtype), self.near)
        if all(isinstance(r, Blocks) and r.array.shape[2] == lanes and r.array.dtype == dtype for r in self.rows):
            return self
        rows: list[Labelled | Blocks] = []
        for row in self.rows:
            if isinstance(row, Labelled) and batch(1) not in row.labels:
                rows.append(row)
            elif isinstance(row, Labelled):
                rows.append(Blocks.of(row, lanes, dtype))
            else:
                rows.append(row.laid_out(lanes, dtype))
        return Own(rows, self.near)


def _some(row: Labelled | Blocks, part: slice | NDArray[numpy.intp]) -> Labelled | Blocks:
    if isinstance(row, Blocks):
        return row.some(part)
    return Labelled(row.array[part], row.labels) if batch(1) in row.labels else row


def joined(parts: Sequence[Labelled]) -> Labelled:
    """Arrays of some inputs after another as one, inputs first."""
    if batch(1) not in parts[0].labels:
        return parts[0]
    labels = (batch(1), *(x for x in parts[0].labels if x != batch(1)))
    return Labelled(numpy.concatenate([numpy.ascontiguousarray(p.at(labels)) for p in parts]), labels)


def aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array of any content whose vectors lie in one line of the cache each."""
    size = math.prod(shape) * numpy.dtype(dtype).itemsize
    # room to begin at a multiple of 64 bytes, the length of a line
    memory = numpy.empty(size + 64, numpy.uint8)
    start = -address(memory) % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def address(array: NDArray[Any]) -> int:
    """Where an array begins in memory."""
    return array.__array_interface__["data"][0]


def plain(value: Labelled | Blocks) -> Labelled:
    """A labelled array in any case."""
    return value.plain if isinstance(value, Blocks) else value
