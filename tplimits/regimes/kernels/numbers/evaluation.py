"""Gram matrices of a kernel derivation: tiles of pairs, one triangle of a symmetric one, draws for random logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import NoLimitError
from tplimits.progress import Progress, reporting
from tplimits.regimes.kernels.numbers.drawn import drawn
from tplimits.regimes.kernels.numbers.fused import NotFused
from tplimits.regimes.kernels.numbers.fused_run import pairs
from tplimits.regimes.kernels.numbers.moment import OutOfRangeError
from tplimits.regimes.kernels.numbers.plan import Own, plan_for, step_of
from tplimits.regimes.kernels.numbers.request import (
    KERNELS,
    GramRequest,
    KernelPair,
    NNGPAlone,
    dropped,
    laid_out,
    of_tables,
    refuse_infinite,
    refuse_mixture,
    shape_of,
)
from tplimits.regimes.kernels.numbers.singular import blocks
from tplimits.regimes.kernels.numbers.stored import GramFiles
from tplimits.regimes.kernels.numbers.symmetry import transposed
from tplimits.regimes.kernels.numbers.tables import Tables

Array = NDArray[numpy.float64]
#: makes the array of a kernel, given its name and shape
Allocate = Callable[[str, tuple[int, ...]], Array]
#: pairs from which on single precision is worth while, and inputs of either side that it is tried at
_SINGLE, _SAMPLE = 1024, (4, 8)
#: entries of the largest table of one tile
_TILE = 1 << 17
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
    if not asked.is_drawn:
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
    pieces = _pieces(asked, tuple(kernels))
    with reporting(progress) as report:
        report.plan(len(pieces.places), "tiles of pairs")
        for rows, columns in pieces.places:
            values, error = pieces.of(rows, columns)
            refuse_infinite(asked, kernels, values, rows.start, columns.start)
            yield Tile(rows, columns, values, error)
            report.advance(1)


@dataclass(frozen=True)
class _Pieces:
    """Places of tiles, and the kernels of one."""

    places: list[tuple[slice, slice]]
    of: Callable[[slice, slice], tuple[list[Array], float]]


def _pieces(asked: GramRequest, kernels: tuple[str, ...]) -> _Pieces:
    """Tiles by the compiled loop where there is one for all pairs, by the plan of the recursion elsewhere."""
    if not asked.derivation.axes and not asked.derivation.is_drawn:
        step = math.isqrt(_TILE)
        places = _places(asked, step)
        first = _fused(_part(asked, *places[0]))
        if first is not None:
            found = {(places[0][0].start, places[0][1].start): first}

            def fused(rows: slice, columns: slice) -> tuple[list[Array], float]:
                pair = found.pop((rows.start, columns.start), None) or _fused(_part(asked, rows, columns))
                if pair is None:
                    return _extended(_part(asked, rows, columns), kernels)
                return [getattr(pair, kernel) for kernel in kernels], 0.0

            return _Pieces(places, fused)
    planned = Planned(asked, kernels)
    return _Pieces(_places(asked, planned.step), planned.tile)


def _places(asked: GramRequest, step: int) -> list[tuple[slice, slice]]:
    if asked.symmetric:
        step = min(step, max(_LEAST, -(-asked.one.many // 4)))  # what is below the diagonal is left out
    return [
        (slice(i, min(i + step, asked.one.many)), slice(j, min(j + step, asked.other.many)))
        for i in range(0, asked.one.many, step)
        for j in range(i if asked.symmetric else 0, asked.other.many, step)
    ]


def _part(asked: GramRequest, rows: slice, columns: slice) -> GramRequest:
    part = replace(asked, one=asked.one.some(rows), other=asked.other.some(columns))
    return replace(part, symmetric=asked.symmetric and rows == columns, single=False)


class Planned:
    """Kernels by the plan of a recursion: rows of each input once, then tiles of pairs."""

    def __init__(self, asked: GramRequest, kernels: tuple[str, ...]) -> None:
        self.asked, self.kernels = asked, kernels
        self.plan = plan_for(asked.derivation, asked.one, asked.other, asked.constants, kernels)
        pairs = asked.one.many * asked.other.many
        self.plan.expect(pairs)
        self.step = step_of(self.plan, _TILE)
        self.single = asked.single and pairs >= _SINGLE and self.plan.is_nested
        self.rounding = 0.0

    @cached_property
    def owns(self) -> dict[int, Own]:
        """What is done once for each input."""
        with numpy.errstate(all="ignore"):
            one = self.plan.own(1, self.asked.one)
            same = self.asked.one is self.asked.other
            return {1: one, 2: one if same else self.plan.own(2, self.asked.other)}

    @cached_property
    def laid_out(self) -> dict[int, Own]:
        """The same as loops over pairs read it."""
        if not self.plan.is_nested:
            return self.owns
        lanes, dtype = self.plan.lanes(self.single, self.asked.other.many)
        one = self.owns[1].laid_out(lanes, dtype)
        return {1: one, 2: one if self.owns[2] is self.owns[1] else self.owns[2].laid_out(lanes, dtype)}

    def tile(self, rows: slice, columns: slice) -> tuple[list[Array], float]:
        """The kernels of one tile."""
        part, kernels = _part(self.asked, rows, columns), self.kernels
        try:
            mine = self._own(part, self.owns[1].some(rows)) if part.symmetric else []
            if not all(numpy.isfinite(m).all() for m in mine):
                return _extended(part, kernels)
            owns = {1: self.laid_out[1].some(rows), 2: self.laid_out[2].some(columns)}
            if mine and part.one.many == 1 and not owns[1].near.any():
                return [dropped(part, m[None]) for m in mine], self.plan.error
            found, near = self.plan.run(part.one, part.other, owns, part.symmetric, self.single)
        except OutOfRangeError:
            return _extended(part, kernels)
        values = [laid_out(part, v) for v in found]
        if self.single and rows.start == 0:
            self.rounding = max(self.rounding, self._rounding(part, values))
        if not all(numpy.isfinite(v).all() for v in values):  # exponentials of large logits have room there
            return _extended(part, kernels)
        if part.symmetric:  # what is below the diagonal is a copy, and on it are kernels of inputs with themselves
            near &= numpy.triu(numpy.ones_like(near), 1) | numpy.diag(owns[1].near)
        if near.any():
            values = [numpy.array(v) for v in values]
            for i, j in blocks(near):
                some = replace(part, one=part.one.some(i), other=part.other.some(j))
                for value, better in zip(values, wide(some, kernels)[0], strict=True):
                    value[numpy.ix_(i, j)] = better
        if part.symmetric:
            values = [_symmetric(v, m, ~owns[1].near) for v, m in zip(values, mine, strict=True)]
        return [dropped(part, v) for v in values], max(self.plan.error, self.rounding)

    def _rounding(self, part: GramRequest, values: Sequence[Array]) -> float:
        """What single precision costs: the largest difference to doubles at some pairs, the most alike among them."""
        many = part.one.many, part.other.many
        rng = numpy.random.default_rng(many)
        i, j = (numpy.sort(rng.permutation(n)[:k]) for n, k in zip(many, _SAMPLE, strict=True))
        first = values[0].reshape(*many, -1)[:, :, 0]
        place = numpy.unravel_index(numpy.argmax(numpy.triu(first, 1) if part.symmetric else first), many)
        i, j = (numpy.union1d(a, [p]) for a, p in zip((i, j), place, strict=True))
        owns = {1: self.owns[1].some(i), 2: self.owns[2].some(j)}
        some = replace(part, one=part.one.some(i), other=part.other.some(j))
        exact, _ = self.plan.run(some.one, some.other, owns)
        pairs = numpy.ix_(i, j)
        kept = (i[:, None] < j[None, :]) if part.symmetric else numpy.ones((len(i), len(j)), dtype=bool)
        differences = (abs(laid_out(some, e) - v[pairs])[kept] for e, v in zip(exact, values, strict=True))
        return float(max((d.max(initial=0.0) for d in differences), default=0.0))

    def _own(self, part: GramRequest, own: Own) -> list[Array]:
        """Kernels of inputs with themselves."""
        return [laid_out(part, own.row(k - len(self.kernels)), own=True) for k in range(len(self.kernels))]


def _symmetric(value: Array, own: Array, known: NDArray[numpy.bool_]) -> Array:
    """Entries below the diagonal from those above, and on it the known kernels of inputs with themselves."""
    found = numpy.array(value)
    for i in range(0, len(found), _LEAST):
        a, rest = slice(i, i + _LEAST), slice(i + _LEAST, None)
        lower = numpy.tril_indices(len(found[a, a]), -1)
        found[a, a][lower] = transposed(found[a, a])[lower]
        found[rest, a] = transposed(found[a, rest])
    diagonal = numpy.flatnonzero(known)
    found[diagonal, diagonal] = own[diagonal]
    return found


def _extended(part: GramRequest, kernels: Sequence[str]) -> tuple[list[Array], float]:
    """Kernels of all pairs in extended precision."""
    values, error = wide(part, kernels)
    return [dropped(part, v) for v in values], error


def wide(part: GramRequest, kernels: Sequence[str]) -> tuple[list[Array], float]:
    """The interpreter in extended precision, on covariances."""
    tables = Tables(
        part.derivation, (part.one, part.other), part.constants, extended=True, demand=part.derivation.demand
    )
    values = of_tables(part, tables, kernels)
    with numpy.errstate(all="ignore"):  # what is infinite in doubles is told where kernels are given out
        return [v.astype(numpy.float64) for v in values], tables.error


def _tiled(asked: GramRequest, progress: Progress, empty: Allocate) -> KernelPair:
    kernels: tuple[str, ...] = ("nngp",) if asked.derivation.no_ntk else KERNELS
    found, error = [empty(kernel, shape_of(asked)) for kernel in kernels], 0.0
    for tile in tiles(asked, kernels, progress):
        for array, value in zip(found, tile.values, strict=True):
            array[tile.rows, tile.columns] = value
            if asked.symmetric and tile.rows != tile.columns:
                array[tile.columns, tile.rows] = transposed(value)
        error = max(error, tile.error)
    return KernelPair(found[0], found[-1], error, error)


def _fused(asked: GramRequest) -> KernelPair | None:
    """Both kernels by one compiled loop, where the recursion has no finite axes and closed forms alone."""
    if asked.derivation.axes or any(t.left or t.right for t in asked.derivation.needed):
        return None
    try:
        with numpy.errstate(all="ignore"):
            nngp, ntk = pairs(asked.derivation, asked.one, asked.other, asked.constants, asked.symmetric, asked.dtype)
        return KernelPair(nngp, ntk)
    except (NotFused, OverflowError):  # what leaves the range of doubles is told by the arrays
        return None
