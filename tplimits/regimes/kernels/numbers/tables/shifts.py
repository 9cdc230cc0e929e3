"""Sums of entries that index arrays pick: Σ_t x[T(t, i)], with slices where the arrays are affine.

An array T of places, −1 outside, is affine when on grids of the places, W columns wide before and V after, every tap t
reads row s·y + a_t and column u·x + b_t of the place (y, x), and nothing outside: convolutions with strides and
dilation, pools, padding.  This is seen by values.  Anything else (permutations, graphs, up-sampling) is gathered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.program.parts import linked
from tplimits.regimes.kernels.numbers.tables.entrywise import added
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, contracted, mapped, step

Places = NDArray[numpy.intp]
#: order of taps by column, rows and columns that they move by, width of the grid
Moves = tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64], int]
#: of one axis of a grid: where entries go, where they come from
Cut = tuple[slice, slice]


@dataclass(frozen=True, eq=False)
class Grid:
    """Shapes (rows, columns) of the places that are read and written, and the cuts of each tap."""

    source: tuple[int, int]
    target: tuple[int, int]
    taps: tuple[tuple[Cut, Cut] | None, ...]

    @cached_property
    def apart(self) -> tuple[tuple[Cut, ...], tuple[Cut, ...]] | None:
        """Cuts of rows and of columns, where the taps are all pairs of them: 3 + 3 sums instead of 9."""
        if None in self.taps:
            return None
        rows = tuple(dict.fromkeys(map(_frozen, (t[0] for t in self.taps if t))))
        columns = tuple(dict.fromkeys(map(_frozen, (t[1] for t in self.taps if t))))
        pairs = {(_frozen(t[0]), _frozen(t[1])) for t in self.taps if t}
        if len(self.taps) != len(pairs) or len(pairs) != len(rows) * len(columns) or 1 in (len(rows), len(columns)):
            return None
        return tuple(map(_cut, rows)), tuple(map(_cut, columns))


def _frozen(cut: Cut) -> tuple[int, ...]:
    return tuple(v for s in cut for v in (s.start, s.stop, s.step))


def _cut(numbers: tuple[int, ...]) -> Cut:
    return slice(*numbers[:3]), slice(*numbers[3:])


def grid(places: Places, source: int) -> Grid | None:
    """The grid on which taps (taps, entries) are affine; None where there is none."""
    return _grid(places.astype(numpy.int64).tobytes(), places.shape, source)


@lru_cache(maxsize=256)
def _grid(content: bytes, shape: tuple[int, int], source: int) -> Grid | None:
    places = numpy.frombuffer(content, dtype=numpy.int64).reshape(shape)
    for width in widths_of_grids(source):
        for columns in widths_of_grids(shape[1]):
            taps = [_affine(row, (source // width, width), (shape[1] // columns, columns)) for row in places]
            if all(t is not False for t in taps):
                kept: Any = tuple(None if t is None else t for t in taps)
                return Grid((source // width, width), (shape[1] // columns, columns), kept)
    return None


def widths_of_grids(number: int) -> list[int]:
    """Widths of grids with so many places: one row first, then square ones."""
    found = [w for w in range(1, number + 1) if number % w == 0]
    return sorted(found, key=lambda w: (w != number, abs(w * w - number)))


def _affine(row: NDArray[numpy.int64], source: tuple[int, int], target: tuple[int, int]) -> Any:
    """The cuts of one tap: None where it reads nothing, False where it is not affine."""
    present = row.reshape(target) >= 0
    if not present.any():
        return None
    cuts = []
    rows, columns = numpy.divmod(row.reshape(target), source[1])
    for values, axis, many in ((rows, 0, source[0]), (columns, 1, source[1])):
        inside = numpy.flatnonzero(present.any(axis=1 - axis))
        first, last = int(inside[0]), int(inside[-1]) + 1
        line = numpy.where(present, values, -1).max(axis=1 - axis)[first:last]
        stride = int(line[1] - line[0]) if len(line) > 1 else 1
        if stride < 1 or (line != line[0] + stride * numpy.arange(len(line))).any() or int(line[-1]) >= many:
            return False
        cuts.append((slice(first, last, 1), slice(int(line[0]), int(line[-1]) + 1, stride)))
    (ys, from_y), (xs, from_x) = cuts
    # cuts are read off the margins: whether they describe every single place is compared here
    wanted = numpy.full(target, -1)
    wanted[ys, xs] = (
        numpy.arange(source[0])[from_y, None] * source[1] + numpy.arange(source[1])[from_x]
    )  # what these cuts read, everywhere
    return ((ys, from_y), (xs, from_x)) if (wanted == row.reshape(target)).all() else False


def moved(places: NDArray[numpy.intp], source: int) -> Moves | None:
    """Taps in the order of their columns, the rows and columns that they move by, and the width of the grid."""
    return _moved(numpy.ascontiguousarray(places, dtype=numpy.int64).tobytes(), places.shape, source)


@lru_cache(maxsize=256)
def _moved(content: bytes, shape: tuple[int, int], source: int) -> Moves | None:
    places = numpy.frombuffer(content, dtype=numpy.int64).reshape(shape)
    found = grid(places, source) if shape[1] == source else None
    if found is None or found.source != found.target or None in found.taps:
        return None
    height, width = found.source
    down = numpy.array([t[0][1].start - t[0][0].start for t in found.taps if t])
    across = numpy.array([t[1][1].start - t[1][0].start for t in found.taps if t])
    y, x = numpy.divmod(numpy.arange(source), width)
    for row, a, b in zip(places, down, across, strict=True):  # a tap may leave out what it could read
        inside = (y + a >= 0) & (y + a < height) & (x + b >= 0) & (x + b < width)
        if (numpy.where(inside, (y + a) * width + x + b, -1) != row).any():
            return None
    order = numpy.argsort(across, kind="stable")
    return order, down[order], across[order], width


@dataclass(frozen=True, eq=False)
class Read:
    """One index of an array: its label, places over (bounds, new labels), the new labels and their sizes."""

    label: str
    places: Places
    labels: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.places.shape[1:]

    @property
    def flat(self) -> Places:
        return self.places.reshape(len(self.places), -1)


def after(value: Labelled, reads: Sequence[Read]) -> tuple[str, ...]:
    """The labels of a sum of entries."""
    gone = [r.label for r in reads]
    return (*(x for x in value.labels if x not in gone), *(x for r in reads for x in r.labels))


@step(lambda values, reads: after(values[0], reads))
def summed_entries(values: Sequence[Labelled], reads: Sequence[Read]) -> Labelled:
    """Σ_t x[…, T₁(t, i), T₂(t, j)]: the taps run together in all reads; −1 reads zero."""
    (value,) = values
    labels = after(value, reads)
    rest = [x for x in value.labels if x not in [r.label for r in reads]]
    array = value.at([*rest, *(r.label for r in reads)])
    sizes = array.shape[len(rest) :]
    front = array.shape[: len(rest)]
    grids = [grid(r.flat, size) for r, size in zip(reads, sizes, strict=True)]
    if all(g is not None for g in grids):
        found = _by_slices(array.reshape(math.prod(front), *sizes), grids)
    else:
        found = _by_gathering(array.reshape(math.prod(front), *sizes), [r.flat for r in reads])
    return Labelled(found.reshape(*front, *(s for r in reads for s in r.sizes)), labels)


def _by_slices(array: NDArray[Any], grids: Sequence[Any]) -> NDArray[Any]:
    many = len(array)
    array = array.reshape(many, *(n for g in grids for n in g.source))
    if all(g.apart is not None and g.apart == grids[0].apart for g in grids):
        rows, columns = grids[0].apart
        between = [n for g in grids for n in (g.source[0], g.target[1])]
        inner = _added(array, (many, *between), [((slice(None),) * 2, c) * len(grids) for c in columns])
        shape = (many, *(n for g in grids for n in g.target))
        return _added(inner, shape, [(r, (slice(None),) * 2) * len(grids) for r in rows])
    taps = [
        tuple(c for g in grids for c in g.taps[t]) for t in range(len(grids[0].taps)) if all(g.taps[t] for g in grids)
    ]
    return _added(array, (many, *(n for g in grids for n in g.target)), taps)


def _added(array: NDArray[Any], shape: tuple[int, ...], cuts: Sequence[Sequence[Cut]]) -> NDArray[Any]:
    # pairs beside each other stay so: sums over places are then long runs
    found = numpy.zeros(shape, array.dtype, order="F" if array.flags.f_contiguous else "C")
    for tap in cuts:
        target, source = ((slice(None), *(c[k] for c in tap)) for k in (0, 1))
        found[target] += array[source]
    return found


def _by_gathering(array: NDArray[Any], places: Sequence[Places]) -> NDArray[Any]:
    found = numpy.zeros((len(array), *(p.shape[1] for p in places)), array.dtype)
    for taps in zip(*places, strict=True):
        kept = [numpy.flatnonzero(t >= 0) for t in taps]
        source, target = (
            (slice(None), *numpy.ix_(*w)) for w in ([t[k] for t, k in zip(taps, kept, strict=True)], kept)
        )
        found[target] += array[source]
    return found


def together(bounds: Sequence[frozenset[str]]) -> list[list[int]]:
    """Reads that share a bound index, by place: others are operators of their own."""
    return [sorted(members) for members, _ in linked(enumerate(bounds))]


@step(lambda values, reads: after(values[0], reads))
def summed_gaps(values: Sequence[Labelled], reads: Sequence[Read]) -> Labelled:
    """Σ_t G[T₁(t, i), T₂(t, j)] of (gaps, variances of either side)."""
    found: Labelled = mapped(added, [summed_entries(values[:1], reads), *edges(values[1:], reads)])
    return Labelled(found.at(after(values[0], reads)), after(values[0], reads))


def edges(variances: Sequence[Any], reads: Sequence[Read]) -> list[Any]:
    """Half the variances of taps of which the other side is outside: rows, then columns.

    A place outside counts as the variable 0, whose gap to z is half the variance of z.
    """
    tap = f"′{len(reads[0].places)} taps"
    away = [Labelled((r.flat < 0).astype(float).reshape(r.places.shape), (tap, *r.labels)) for r in reads]
    half, over = Labelled(numpy.asarray(0.5)), frozenset({tap})
    left, right = (
        summed_entries([v], (Read(r.label, r.places[None], (tap, *r.labels)),))
        for v, r in zip(variances, reads, strict=True)
    )
    return [contracted([left, away[1], half], over), contracted([away[0], right, half], over)]
