"""Where the places of an axis lie in the memory of compiled passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from tplimits.regimes.kernels.numbers.passes.forms import Picks
from tplimits.regimes.kernels.numbers.tables.shifts import moved

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.passes import Passes


@dataclass(frozen=True)
class Axis:
    """How places along an axis are stored: on a grid with a border on all sides where its taps move a grid, else in a
    line with one cell behind it.  Nothing but zero is ever in a border."""

    size: int
    #: rows and columns of the grid, and how wide its border is above and below, left and right
    shape: tuple[int, int]
    border: tuple[int, int] = (0, 0)

    @property
    def is_grid(self) -> bool:
        return self.border != (0, 0)

    @property
    def width(self) -> int:
        """Cells of a row."""
        return self.shape[1] + 2 * self.border[1]

    @property
    def extent(self) -> int:
        """All cells."""
        return self.width * (self.shape[0] + 2 * self.border[0]) if self.is_grid else self.size + 1

    def cells(self, places: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
        """Where places are, and what is outside."""
        if not self.is_grid:
            return numpy.where(places < 0, self.size, places)
        y, x = numpy.divmod(places, self.shape[1])
        return numpy.where(places < 0, 0, (y + self.border[0]) * self.width + x + self.border[1])

    def distances(self, places: NDArray[numpy.int64]) -> NDArray[numpy.int64] | None:
        """Of each tap, where it moves all places alike."""
        found = moved(places, self.size) if self.is_grid and places.shape[1] == self.size else None
        if found is None or found[3] != self.shape[1]:
            return None
        order, down, across, _ = found
        if max(abs(down)) > self.border[0] or max(abs(across)) > self.border[1]:
            return None
        distances = numpy.empty(len(places), numpy.int64)
        distances[order] = down * self.width + across
        return distances


@dataclass(frozen=True)
class Window:
    """Taps as the rows and columns that they move a place by, all pairs of them."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


def window(down: Sequence[int], across: Sequence[int]) -> Window | None:
    """The window of taps that move so; None where they are not all pairs of some rows and columns, each once."""
    moves = set(zip(down, across, strict=True))
    rows, columns = sorted({a for a, _ in moves}), sorted({b for _, b in moves})
    if len(moves) != len(down) or len(moves) != len(rows) * len(columns):
        return None
    return Window(tuple(map(int, rows)), tuple(map(int, columns)))


def axes_of(passes: Passes) -> dict[int, Axis]:
    """The axes of each size."""
    found: dict[int, Axis] = {}
    picks = [p for one in passes.passes for g in one.gathers.values() for p in g.at if isinstance(p, Picks)]
    for pick in picks:
        size = pick.places.shape[1]
        move = moved(pick.places, size) if (pick.places.shape[0] > 1 and size > 1) else None
        if move is None or int(pick.places.max()) >= size:
            continue
        _, down, across, width = move
        shape, border = (size // width, width), (int(max(abs(down))), int(max(abs(across))))
        known = found.get(size, Axis(size, shape, border))
        if known.shape == shape:
            found[size] = Axis(size, shape, tuple(map(max, known.border, border)))  # type: ignore[arg-type]
    return found


@dataclass(frozen=True)
class Kept:
    """An array of the passes: where it begins in the room of a thread, and its axes."""

    start: int
    axes: tuple[Axis, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(a.extent for a in self.axes)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.extents[k + 1 :]) for k in range(len(self.extents)))
