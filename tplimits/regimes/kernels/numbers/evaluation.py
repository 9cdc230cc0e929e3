"""Gram matrices of a kernel derivation: tiles of pairs, one triangle of a symmetric one, draws for random logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import NoLimitError
from tplimits.progress import Progress, reporting
from tplimits.regimes.kernels.numbers.drawn import drawn
from tplimits.regimes.kernels.numbers.fused import NotFused
from tplimits.regimes.kernels.numbers.fused_run import pairs
from tplimits.regimes.kernels.numbers.moment import OutOfRangeError
from tplimits.regimes.kernels.numbers.request import (
    KERNELS,
    GramRequest,
    KernelPair,
    NNGPAlone,
    dropped,
    of_tables,
    refuse_infinite,
    refuse_mixture,
    shape_of,
)
from tplimits.regimes.kernels.numbers.singular import blocks, suspects
from tplimits.regimes.kernels.numbers.stored import GramFiles
from tplimits.regimes.kernels.numbers.tables import Tables

Array = NDArray[numpy.float64]
#: makes the array of a kernel, given its name and shape
Allocate = Callable[[str, tuple[int, ...]], Array]
#: entries of the largest table of one tile
_TILE = 1 << 21
#: inputs a side up to which a symmetric request is one tile: several leave out what is below the diagonal
_LEAST = 64


def evaluate(
    asked: GramRequest,
    draws: int = 1024,
    replicates: int = 8,
    seed: int = 0,
    progress: Progress = None,
    out: Any = None,
) -> KernelPair | NNGPAlone:
    """Both kernels of a request, in memory or in the files of `out`; the NNGP alone where there is no NTK."""
    pair = _evaluated(asked, draws, replicates, seed, progress, out)
    reason = asked.derivation.no_ntk
    return NNGPAlone(pair.nngp, pair.nngp_error, reason) if reason else pair


def _evaluated(asked: GramRequest, draws: int, replicates: int, seed: int, progress: Progress, out: Any) -> KernelPair:
    refuse_mixture(asked.derivation)
    if out is None:
        fused = None if asked.derivation.is_drawn else _fused(asked)
        if fused is not None:
            refuse_infinite(asked, KERNELS, list(fused))
            return fused
        return _pair(asked, draws, replicates, seed, progress, lambda _, shape: numpy.empty(shape, asked.dtype))
    with GramFiles(out) as files:
        pair = _pair(asked, draws, replicates, seed, progress, files.empty)
        return replace(pair, **files.published())


def _pair(
    asked: GramRequest, draws: int, replicates: int, seed: int, progress: Progress, empty: Allocate
) -> KernelPair:
    if not asked.derivation.is_drawn:
        return _tiled(asked, progress, empty)
    pair = drawn(asked, [(1, 2)], draws, replicates, seed, progress)[1, 2]
    arrays = [empty(kernel, array.shape) for kernel, array in zip(KERNELS, pair, strict=True)]
    for array, value in zip(arrays, pair, strict=True):
        array[...] = value
    return replace(pair, nngp=arrays[0], ntk=arrays[1])


# -- tiles ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """Some kernels of some pairs, each (rows, columns, *axes, *axes), and a bound of their errors."""

    rows: slice
    columns: slice
    values: list[Array]
    error: float


def tiles(asked: GramRequest, kernels: Sequence[str] = KERNELS, progress: Progress = None) -> Iterator[Tile]:
    """The kernels piece by piece; of a symmetric one the pieces on and above the diagonal."""
    if "ntk" in kernels and "nngp" not in kernels and asked.derivation.no_ntk:
        raise NoLimitError(asked.derivation.no_ntk)
    step = _step(asked)
    places = [
        (slice(i, min(i + step, asked.one.many)), slice(j, min(j + step, asked.other.many)))
        for i in range(0, asked.one.many, step)
        for j in range(i if asked.symmetric else 0, asked.other.many, step)
    ]
    compiled = True
    with reporting(progress) as report:
        report.plan(len(places), "tiles of pairs")
        for rows, columns in places:
            part = replace(asked, one=asked.one.some(rows), other=asked.other.some(columns))
            part = replace(part, symmetric=asked.symmetric and rows == columns, single=False)
            pair = _fused(part) if compiled else None
            compiled, error = pair is not None, 0.0
            if pair is not None:
                values = [getattr(pair, kernel) for kernel in kernels]
            else:
                values, error = _by_arrays(part, kernels)
            refuse_infinite(asked, kernels, values, rows.start, columns.start)
            yield Tile(rows, columns, values, error)
            report.advance(1)


def _tiled(asked: GramRequest, progress: Progress, empty: Allocate) -> KernelPair:
    kernels = ("nngp",) if asked.derivation.no_ntk else KERNELS
    found, error = [empty(kernel, shape_of(asked)) for kernel in kernels], 0.0
    for tile in tiles(asked, kernels, progress):
        for array, value in zip(found, tile.values, strict=True):
            array[tile.rows, tile.columns] = value
            if asked.symmetric and tile.rows != tile.columns:
                array[tile.columns, tile.rows] = _transposed(value)
        error = max(error, tile.error)
    return KernelPair(found[0], found[-1], error, error)


def _fused(asked: GramRequest) -> KernelPair | None:
    """Both kernels by one compiled loop, where the recursion has no finite axes and closed forms alone."""
    if asked.derivation.axes:
        return None
    try:
        with numpy.errstate(all="ignore"):
            nngp, ntk = pairs(asked.derivation, asked.one, asked.other, asked.constants, asked.symmetric, asked.dtype)
        return KernelPair(nngp, ntk)
    except (NotFused, OverflowError):  # what leaves the range of doubles is told by the arrays
        return None


def _by_arrays(asked: GramRequest, kernels: Sequence[str]) -> tuple[list[Array], float]:
    """Some kernels of all pairs by arrays; nearly singular pairs, and what overflows, in extended precision."""
    tables = Tables(asked.derivation, (asked.one, asked.other), asked.constants, suspects=[])
    try:
        values = of_tables(asked, tables, kernels)
    except OutOfRangeError:
        values = [numpy.full(1, numpy.nan)]
    if not all(numpy.isfinite(v).all() for v in values):  # exponentials of large logits have room there
        wide = Tables(asked.derivation, (asked.one, asked.other), asked.constants, extended=True)
        values = [v.astype(numpy.float64) for v in of_tables(asked, wide, kernels)]
        return [dropped(asked, v) for v in values], wide.error
    if tables.suspects:
        values = [numpy.array(v) for v in values]
        for rows, columns in blocks(suspects(tables.suspects, (asked.one.many, asked.other.many))):
            part = replace(asked, one=asked.one.some(rows), other=asked.other.some(columns))
            wide = Tables(asked.derivation, (part.one, part.other), asked.constants, extended=True)
            for value, better in zip(values, of_tables(part, wide, kernels), strict=True):
                value[numpy.ix_(rows, columns)] = better
    return [dropped(asked, v) for v in values], tables.error


def _step(asked: GramRequest) -> int:
    """Inputs a side of a tile, by the largest table."""
    largest = 1
    for table in asked.derivation.tables:
        left = math.prod(asked.one.sizes.get(a.partition("′")[0], 1) for a in table.left)
        right = math.prod(asked.other.sizes.get(a.partition("′")[0], 1) for a in table.right)
        largest = max(largest, left * right)
    step = max(1, math.isqrt(_TILE // min(_TILE, largest)))
    return min(step, max(_LEAST, -(-asked.one.many // 4))) if asked.symmetric else step  # what is below the diagonal


def _transposed(value: Array) -> Array:
    """K(ξ′, ξ) from K(ξ, ξ′)."""
    axes = value.ndim // 2 - 1
    return value.transpose((1, 0, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)))
