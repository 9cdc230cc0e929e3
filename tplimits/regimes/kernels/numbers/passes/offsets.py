"""Offsets between a place of one side and one of the other, on a grid: which pairs each has, and where pools put them.

An entry at places (p, q) has the offset q − p, in rows and columns.  All entries of one offset are a rectangle of the
grid, by p.  Sums over shared taps stay within an offset; a pool adds an entry to offsets of the coarser grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.cells import Axis

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


def starts_of(axis: Axis, wanted: Iterable[Offset], half: bool) -> dict[Offset, int]:
    """Where each band of a coarser grid begins."""
    found, total = {}, 0
    for offset in in_order(o for o in wanted if not half or is_upper(o)):
        found[offset] = total
        _, h, _, w = rectangle(axis.shape, offset)
        total += h * w
    return found


def additions(
    pools: tuple[Pool, Pool], grids: tuple[Axis, Axis], starts: Mapping[Offset, int], half: bool, offsets: list[Offset]
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """Where pools put the entries of each offset of the finer of two grids, and how many rectangles each has.

    A rectangle: first cell, rows, columns, where to, entries of a row there.  In a half, (q, p) is as (p, q).
    """
    (left, right), (fine, coarse) = pools, grids
    if not offsets:
        return numpy.zeros((0, 5), numpy.int64), numpy.zeros(0, numpy.int64)
    at = numpy.array(offsets)
    spans = [_Spans.of(k, set(at[:, k].tolist()), left, right, fine, coarse) for k in range(2)]
    (first_y, many_y), (first_x, many_x) = (s.places(at[:, k]) for k, s in enumerate(spans))
    many = many_y * many_x
    number = numpy.repeat(numpy.arange(len(at)), many)
    rest = numpy.arange(len(number)) - numpy.repeat(numpy.cumsum(many) - many, many)
    ys = spans[0].table[first_y[number] + rest // many_x[number]]
    xs = spans[1].table[first_x[number] + rest % many_x[number]]
    there = _among(ys[:, 3], xs[:, 3], left.taps) & _among(ys[:, 4], xs[:, 4], right.taps)
    number, (dy, y0, y1, ay, _), (dx, x0, x1, ax, _) = number[there], ys[there].T, xs[there].T
    known = numpy.full([2 * n - 1 for n in coarse.shape], -1)
    for (a, b), start in starts.items():
        known[a + coarse.shape[0] - 1, b + coarse.shape[1] - 1] = start
    (sy, sx), (top, side) = left.strides, fine.border
    cell = (sy * y0 + ay + top) * fine.width + sx * x0 + ax + side
    width = coarse.shape[1] - abs(dx)
    found, kept = [], []
    # of a symmetric table one half is kept: an entry of the other is added where (q, p) stands
    for sign in (1, -1) if half else (1,):
        start = known[sign * dy + coarse.shape[0] - 1, sign * dx + coarse.shape[1] - 1]
        y, x = (y0, x0) if sign == 1 else (y0 + dy, x0 + dx)
        to = start + (y - numpy.maximum(0, -sign * dy)) * width + x - numpy.maximum(0, -sign * dx)
        found.append(numpy.stack([cell, y1 - y0, x1 - x0, to, width], axis=1))
        # offset 0 is its own opposite, and would be added twice
        kept.append((start >= 0) & ((sign == 1) | at[number].any(axis=1)))
    taken = numpy.stack(kept, axis=1)
    return numpy.stack(found, axis=1)[taken], numpy.bincount(number, taken.sum(axis=1), len(at)).astype(numpy.int64)


@dataclass(frozen=True, eq=False)
class _Spans:
    """Along one direction, by offset: offsets of the coarser grid, first and last place there, taps of both sides."""

    table: NDArray[numpy.int64]
    rows: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, k: int, offsets: set[int], left: Pool, right: Pool, fine: Axis, coarse: Axis) -> _Spans:
        s, size, extent = left.strides[k], coarse.shape[k], fine.shape[k]
        taps = sorted({(a[k], b[k]) for a in left.taps for b in right.taps})
        rows: dict[int, tuple[int, int]] = {}
        found: list[tuple[int, ...]] = []
        for offset in offsets:
            before, first, many = len(found), max(0, -offset), extent - abs(offset)
            for a, b in taps:
                away, rest = divmod(offset - (b - a), s)
                if rest == 0 and abs(away) < size:
                    low = max(0, -away, -((a - first) // s))
                    high = min(size, size - away, (first + many - 1 - a) // s + 1)
                    if low < high:
                        found.append((away, low, high, a, b))
            rows[offset] = before, len(found) - before
        return cls(numpy.array(found, numpy.int64).reshape(-1, 5), rows)

    def places(self, offsets: NDArray[numpy.int64]) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """Where the rows of each offset begin, and how many there are."""
        first, many = numpy.array([self.rows[o] for o in offsets.tolist()]).T
        return first, many


def _among(rows: NDArray[numpy.int64], columns: NDArray[numpy.int64], taps: Sequence[Offset]) -> NDArray[numpy.bool_]:
    """Which of them are taps."""
    # two whole numbers as one: taps are far smaller
    far = 1 << 32
    return numpy.isin(rows * far + columns, [a * far + b for a, b in taps])
