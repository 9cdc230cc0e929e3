"""Offsets between a place of one side and one of the other, on a grid: which pairs each has, and where pools put them.

An entry at places (p, q) has the offset q − p, in rows and columns.  All entries of one offset are a rectangle of the
grid, by p.  Sums over shared taps stay within an offset; a pool adds an entry to offsets of the coarser grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.cells import Axis

Offset = tuple[int, int]
Shape = tuple[int, int]
#: columns of offsets that are done together, so that what they are added to stays in the cache
_TOGETHER = 8


@dataclass(frozen=True)
class Pool:
    """Taps of a pool: place (s_y·Y + a_y, s_x·X + a_x) of the finer grid, for each tap (a_y, a_x); nothing outside."""

    strides: Offset
    taps: tuple[Offset, ...]


def pool(places: NDArray[numpy.int64], fine: Shape, coarse: Shape) -> Pool | None:
    """Places (taps, entries), −1 for none, as the taps of a pool; None where they move differently."""
    if coarse[0] * coarse[1] != places.shape[1] or int(places.max(initial=-1)) >= fine[0] * fine[1]:
        return None
    return _pool(numpy.ascontiguousarray(places).tobytes(), places.shape, fine, coarse)


@lru_cache(maxsize=256)
def _pool(content: bytes, shape: Shape, fine: Shape, coarse: Shape) -> Pool | None:
    places = numpy.frombuffer(content, dtype=numpy.int64).reshape(shape[0], *coarse)
    if (places < 0).all(axis=(1, 2)).any():
        return None
    rows, columns = numpy.divmod(places, fine[1])
    present = places >= 0
    strides = _stride(rows, present, 1), _stride(columns, present, 2)
    taps, (ys, xs) = [], numpy.indices(coarse)
    for row, column, there in zip(rows, columns, present, strict=True):
        y, x = (int(k[0]) for k in numpy.nonzero(there))
        a, b = int(row[y, x]) - strides[0] * y, int(column[y, x]) - strides[1] * x
        v, u = strides[0] * ys + a, strides[1] * xs + b
        inside = (v >= 0) & (v < fine[0]) & (u >= 0) & (u < fine[1])
        if (inside != there).any() or (v != row)[there].any() or (u != column)[there].any():
            return None
        taps.append((a, b))
    return Pool(strides, tuple(taps)) if len(set(taps)) == len(taps) else None


def _stride(numbers: NDArray[numpy.int64], present: NDArray[numpy.bool_], axis: int) -> int:
    """How far the taps of one place are from those of the next; 1 where no two are known."""
    ahead = numpy.diff(numbers, axis=axis)
    both = numpy.logical_and(*(numpy.take(present, range(k, present.shape[axis] - 1 + k), axis) for k in (0, 1)))
    known = ahead[both]
    return max(1, int(known[0])) if known.size else 1


def all_offsets(shape: Shape) -> frozenset[Offset]:
    """Those of all pairs of places."""
    return frozenset(itertools.product(range(1 - shape[0], shape[0]), range(1 - shape[1], shape[1])))


def is_upper(offset: Offset) -> bool:
    """Whether an offset is one of the half that is kept of a symmetric table."""
    return offset >= (0, 0)


def in_order(offsets: Iterable[Offset]) -> list[Offset]:
    """Equal places first, then some columns after another."""
    found = sorted(offsets, key=lambda o: (o[1] // _TOGETHER, o[0], o[1]))
    return sorted(found, key=lambda o: o != (0, 0))


def rectangle(shape: Shape, offset: Offset) -> tuple[int, int, int, int]:
    """First row, rows, first column, columns."""
    (y, h), (x, w) = ((max(0, -o), n - abs(o)) for o, n in zip(offset, shape, strict=True))
    return y, h, x, w


@dataclass(eq=False)
class Pooled:
    """Sums of a table over pools on either side, band after band: entries of one offset, row by row."""

    fine: int
    left: Pool
    right: Pool
    axis: Axis
    wanted: frozenset[Offset] = frozenset()
    #: where it begins in the room of a thread
    start: int = 0

    def starts(self, half: bool) -> dict[Offset, int]:
        """Where each band begins."""
        found, total = {}, 0
        for offset in in_order(o for o in self.wanted if not half or is_upper(o)):
            found[offset] = total
            _, h, _, w = rectangle(self.axis.shape, offset)
            total += h * w
        return found

    @property
    def extent(self) -> int:
        """Entries of all bands."""
        return sum(h * w for _, h, _, w in (rectangle(self.axis.shape, o) for o in self.wanted))

    def reached(self) -> frozenset[Offset]:
        """The offsets of the finer table that are added up."""
        (sy, sx), found = self.left.strides, set()
        for (dy, dx), (ay, ax), (by, bx) in itertools.product(self.wanted, self.left.taps, self.right.taps):
            found.add((sy * dy + by - ay, sx * dx + bx - ax))
        return frozenset(found)

    def additions(self, fine: Axis, half: bool) -> Additions:
        """What the entries of the offsets of a finer grid are added to."""
        return Additions(self.left, self.right, fine, self.axis, self.starts(half), half)


@dataclass(eq=False)
class Additions:
    """Where pools put the entries of each offset: rectangles of the finer grid, and of the coarser."""

    left: Pool
    right: Pool
    fine: Axis
    coarse: Axis
    starts: dict[Offset, int]
    half: bool
    #: by direction and offset: offsets of the coarser grid, first and last place there, taps
    spans: dict[tuple[int, int], list[tuple[int, ...]]] = field(default_factory=dict)

    def of(self, offset: Offset) -> list[list[int]]:
        """First cell, rows, columns, where to, entries of a row there."""
        found = []
        rows, columns = ((self.spans.get(k) or self._spans(*k)) for k in enumerate(offset))
        mine, theirs = self.left.taps, self.right.taps
        for dy, y0, y1, ay, by in rows:
            for dx, x0, x1, ax, bx in columns:
                if (ay, ax) not in mine or (by, bx) not in theirs:
                    continue
                to = self._target((dy, dx), y0, x0, 0, 0)
                if to is not None:
                    found.append(self._rectangle((y0, y1, ay), (x0, x1, ax), to))
                if self.half and offset != (0, 0):  # the entry at (q, p) is the same
                    to = self._target((-dy, -dx), y0, x0, dy, dx)
                    if to is not None:
                        found.append(self._rectangle((y0, y1, ay), (x0, x1, ax), to))
        return found

    def _spans(self, direction: int, offset: int) -> list[tuple[int, ...]]:
        """Along one direction."""
        k, found = direction, list[tuple[int, ...]]()
        s, size, fine = self.left.strides[k], self.coarse.shape[k], self.fine.shape[k]
        first, many = max(0, -offset), fine - abs(offset)
        for a, b in sorted({(a[k], b[k]) for a in self.left.taps for b in self.right.taps}):
            away, rest = divmod(offset - (b - a), s)
            if rest == 0 and abs(away) < size:
                low = max(0, -away, -((a - first) // s))
                high = min(size, size - away, (first + many - 1 - a) // s + 1)
                if low < high:
                    found.append((away, low, high, a, b))
        self.spans[k, offset] = found
        return found

    def _target(self, band: Offset, y: int, x: int, down: int, across: int) -> tuple[int, int] | None:
        """Where an entry goes, and the entries of a row there."""
        if self.half and not is_upper(band):
            return None
        start = self.starts.get(band)
        if start is None:
            return None
        width = self.coarse.shape[1] - abs(band[1])
        return start + (y + down - max(0, -band[0])) * width + x + across - max(0, -band[1]), width

    def _rectangle(self, rows: Sequence[int], columns: Sequence[int], to: tuple[int, int]) -> list[int]:
        (y0, y1, ay), (x0, x1, ax) = rows, columns
        (sy, sx), (by, bx) = self.left.strides, self.fine.border
        cell = (sy * y0 + ay + by) * self.fine.width + sx * x0 + ax + bx
        return [cell, y1 - y0, x1 - x0, *to]
