"""Gram matrices of a kernel derivation: tiles of pairs, one triangle of a symmetric one, draws for random logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import NoLimitError
from tplimits.numbers.heap import keep_pages
from tplimits.progress import Progress, reporting
from tplimits.regimes.kernels.numbers.alike import mended, near_inputs, rounding
from tplimits.regimes.kernels.numbers.drawn import drawn
from tplimits.regimes.kernels.numbers.passes.plan import are_many
from tplimits.regimes.kernels.numbers.passes.planning import is_plain, plan_for
from tplimits.regimes.kernels.numbers.precise import NotPrecise, precise_pairs
from tplimits.regimes.kernels.numbers.request import (
    KERNELS,
    GramRequest,
    KernelPair,
    NNGPAlone,
    dropped,
    laid_out,
    many_squares,
    of_tables,
    refuse_infinite,
    refuse_mixture,
    shape_of,
    squares,
)
from tplimits.regimes.kernels.numbers.symmetry import mirrored, put_transposed, symmetric, transposed
from tplimits.regimes.kernels.numbers.tables.extents import step_of
from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
from tplimits.regimes.kernels.numbers.tables.moment import OutOfRangeError, error_of_constants
from tplimits.regimes.kernels.numbers.tables.singular import blocks

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.blocks import Own
    from tplimits.regimes.kernels.numbers.passes.plan import KernelPlan

#: so many pairs of a tile are done in many digits, milliseconds each; the rest keeps an error of about 1e-8
_MOST_PRECISE = 2048
#: pairs of inputs, and entries of all of them, from which on single precision is worth while
_PAIRS, _SINGLE = 64, 1 << 24
#: share of pairs that are alike above which all are done in double precision
_FEW_ALIKE = 0.25
#: entries of the largest table of one tile
_TILE = 1 << 15
#: inputs a side up to which a symmetric request is one tile: several leave out what is below the diagonal
_LEAST = 64
#: seconds of array passes over a tile beside which calling a compiled function is little; inputs a side for that
_CALLED, _ENOUGH = 0.5, 256


def evaluate(
    asked: GramRequest, draws: int = 1024, replicates: int = 8, seed: int = 0, progress: Progress = None
) -> KernelPair | NNGPAlone:
    """Both kernels of a request, in memory and in this process; the NNGP alone where there is no NTK."""
    refuse_mixture(asked.derivation)
    reason = asked.derivation.no_ntk
    if asked.is_drawn:
        pair = drawn(asked, [(1, 2)], draws, replicates, seed, progress)[1, 2]
        arrays = (pair.nngp, pair.ntk, pair.nngp_error, pair.ntk_error)
        pair = KernelPair(
            *((symmetric(v) if asked.symmetric else v).astype(asked.dtype) for v in map(numpy.asarray, arrays))
        )
    else:
        pair = _tiled(asked, progress)
    return NNGPAlone(pair.nngp, pair.nngp_error, reason) if reason else pair


def _given(asked: GramRequest, values: Sequence[Array]) -> list[Array]:
    """What a request is answered with: no axes of outputs that are alike, and as symmetric as the request is."""
    kept = [dropped(asked, v) for v in values]
    return [symmetric(v) for v in kept] if asked.symmetric else kept


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
    keep_pages()
    pieces, least = pieces_of(asked, tuple(kernels)), error_of_constants(asked.derivation.means, asked.constants)
    with reporting(progress) as report:
        report.plan(many_squares(asked, pieces.step), "tiles of pairs")
        for rows, columns in squares(asked.one.many, asked.other.many, asked.symmetric, pieces.step):
            values, error = pieces.of(rows, columns)
            refuse_infinite(asked, kernels, values, rows.start, columns.start)
            yield Tile(rows, columns, values, max(error, least))
            report.advance(1)


@dataclass(frozen=True)
class Pieces:
    """Inputs a side of a tile, the kernels of one with a bound of their errors, seconds that a pair takes, roughly."""

    step: int
    of: Callable[[slice, slice], tuple[list[Array], float]]
    seconds: float


def pieces_of(asked: GramRequest, kernels: tuple[str, ...], settled: bool = False) -> Pieces:
    """Tiles by the plan of the recursion.

    `settled`: what is compiled depends on the request alone, not on calls before it, so that a tile has the same bits
    in every process.
    """
    planned = Planned(asked, kernels, settled)
    return Pieces(planned.step, planned.tile, planned.plan.seconds)


def _step(asked: GramRequest, plan: KernelPlan) -> int:
    """Inputs a side of a tile; several tiles a side of a symmetric request: what is below the diagonal is left out.

    One compiled function leaves it out by itself: its tiles are worth the call.  So does a function of arrays.
    """
    room = step_of(plan, _TILE)
    if not asked.symmetric or plan.statements is not None:
        return room
    worth = math.isqrt(int(_CALLED / plan.seconds)) if plan.is_compiled else 0
    several = max(_LEAST, min(_ENOUGH, worth), -(-asked.one.many // _LEAST) * _LEAST // 4)
    return min(room, -(-several // _LEAST) * _LEAST)


def _part(asked: GramRequest, rows: slice, columns: slice) -> GramRequest:
    if (rows, columns) == (slice(0, asked.one.many), slice(0, asked.other.many)) and not asked.single:
        return asked
    part = replace(asked, one=asked.one.some(rows), other=asked.other.some(columns))
    return replace(part, symmetric=asked.symmetric and rows == columns, single=False)


class Planned:
    """Kernels by the plan of a recursion: rows of each input once, then tiles of pairs."""

    def __init__(self, asked: GramRequest, kernels: tuple[str, ...], settled: bool = False) -> None:
        self.asked, self.kernels = asked, kernels
        pairs = asked.one.many * asked.other.many
        self.plan = _plan_of(asked, kernels, pairs, settled)
        self.step = _step(asked, self.plan)
        worth = pairs >= _PAIRS and pairs * self.plan.entries >= _SINGLE
        self.single = asked.single and worth and self.plan.is_compiled
        self.rounding = 0.0

    @cached_property
    def owns(self) -> dict[int, Own]:
        """What is done once for each input."""
        with numpy.errstate(all="ignore"):
            one = self.plan.own(1, self.asked.one, self.step)
            same = self.asked.one is self.asked.other
            return {1: one, 2: one if same else self.plan.own(2, self.asked.other, self.step)}

    @cached_property
    def laid_out(self) -> dict[int, Own]:
        """The same as loops over pairs read it."""
        if not self.plan.is_compiled:
            return self.owns
        lanes, dtype = self.plan.lanes(self.single, self.asked.other.many)
        one = self.owns[1].laid_out(lanes, dtype)
        return {1: one, 2: one if self.owns[2] is self.owns[1] else self.owns[2].laid_out(lanes, dtype)}

    def tile(self, rows: slice, columns: slice) -> tuple[list[Array], float]:
        """The kernels of one tile."""
        part, kernels = _part(self.asked, rows, columns), self.kernels
        if self.plan.statements is not None:
            return self._listed(part, rows, columns)
        try:
            mine = self.own(part, self.owns[1].some(rows)) if part.symmetric else []
            if not all(numpy.isfinite(m).all() for m in mine):
                return _extended(part, kernels)
            if mine and part.one.many == 1 and not self.owns[1].some(rows).near.any():
                return _given(part, [m[None] for m in mine]), self.plan.error
            alike = near_inputs(part.one, part.other) if self.single and self.plan.subtracts else None
            single = self.single and (alike is None or bool(alike.mean() < _FEW_ALIKE))
            owns = self.owns_of(rows, columns, single)
            found, near = self.plan.run(part.one, part.other, owns, part.symmetric, single)
        except OutOfRangeError:
            return _extended(part, kernels)
        values = [laid_out(part, v) for v in found]
        if self.plan.subtracts:
            values = mended(self, (part, rows, columns), values, alike if single else None)
        if single and rows.start == 0:
            self.rounding = max(self.rounding, rounding(self, part, columns, values))
        if not all(numpy.isfinite(v).all() for v in values):  # exponentials of large logits have room there
            return _extended(part, kernels)
        if part.symmetric and near.any():  # below the diagonal are copies, on it kernels of inputs with themselves
            near &= numpy.triu(numpy.ones_like(near), 1) | numpy.diag(owns[1].near)
        if near.any():
            values = [numpy.array(v) for v in values]
            _do_again(part, kernels, near, values, self.plan)
        if part.symmetric:
            values = [_symmetric(v, m, ~owns[1].near) for v, m in zip(values, mine, strict=True)]
        return _given(part, values), max(self.plan.error, self.rounding)

    def _listed(self, part: GramRequest, rows: slice, columns: slice) -> tuple[list[Array], float]:
        """The same by statements."""
        try:
            with numpy.errstate(all="ignore"):
                owns = {1: self.owns[1].some(rows), 2: self.owns[2].some(columns)}
                found, near = self.plan.listed(part.one, part.other, owns, symmetric=part.symmetric)
        except OutOfRangeError:
            return _extended(part, self.kernels)
        if not numpy.isfinite(found).all():
            return _extended(part, self.kernels)
        if near is not None:
            _do_again(part, self.kernels, numpy.triu(near) if part.symmetric else near, list(found), self.plan)
            for value in found if part.symmetric else ():
                mirrored(value)
        return list(found), self.plan.error

    def owns_of(self, rows: slice, columns: slice, single: bool) -> dict[int, Own]:
        """What is done once for each input, for loops in this precision."""
        owns = self.laid_out if single == self.single else self.owns
        return {1: owns[1].some(rows), 2: owns[2].some(columns)}

    def own(self, part: GramRequest, own: Own) -> list[Array]:
        """Kernels of inputs with themselves."""
        return [laid_out(part, own.row(k - len(self.kernels)), own=True) for k in range(len(self.kernels))]


def _plan(asked: GramRequest, kernels: tuple[str, ...], looped: bool = False) -> KernelPlan:
    return plan_for(asked.derivation, asked.one, asked.other, asked.constants, kernels, looped)


def _plan_of(asked: GramRequest, kernels: tuple[str, ...], pairs: int, settled: bool) -> KernelPlan:
    """Statements for few pairs, where they are all; a compiled function where there is work for it."""
    looped = are_many(pairs) and is_plain(asked.derivation)
    if looped or ((plan := _plan(asked, kernels)).statements is not None and plan.is_outgrown(pairs, settled)):
        loops = _plan(asked, kernels, looped=True)
        if loops.has_form:
            return replace(loops, is_compiled=True)
        plan = _plan(asked, kernels)
    if plan.statements is None and settled:
        return plan.settled(pairs)
    if plan.statements is None:
        plan.expect(pairs)
    return plan


def _do_again(
    part: GramRequest, kernels: tuple[str, ...], near: NDArray[numpy.bool_], values: list[Array], plan: KernelPlan
) -> None:
    """Put in pairs with a nearly singular law: by determinants, then in many digits, or in extended precision."""
    if is_plain(part.derivation):
        determined = plan if plan.statements is not None else _plan(part, kernels)
        places = numpy.nonzero(near)
        if determined is not plan and determined.statements is not None:
            with numpy.errstate(all="ignore"):
                places = determined.at(part.one, part.other, places, values)
        pairs = numpy.stack(places, axis=1)[:_MOST_PRECISE]
        try:
            digits = precise_pairs(part.derivation, part.one, part.other, pairs, part.constants)
        except (NotPrecise, OverflowError):
            pass
        else:
            for value, kernel in zip(values, kernels, strict=True):
                value[tuple(pairs.T)] = digits[:, KERNELS.index(kernel)]
            return
    for i, j in blocks(near):
        some = replace(part, one=part.one.some(i), other=part.other.some(j), symmetric=False)
        for value, better in zip(values, wide(some, kernels)[0], strict=True):
            value[numpy.ix_(i, j)] = better


def _symmetric(value: Array, own: Array, known: NDArray[numpy.bool_]) -> Array:
    """Entries below the diagonal from those above, and on it the known kernels of inputs with themselves."""
    found = numpy.array(value)
    for i in range(0, len(found), _LEAST):
        a, rest = slice(i, i + _LEAST), slice(i + _LEAST, None)
        mirrored(found[a, a])
        if rest.start < len(found):
            found[rest, a] = transposed(found[a, rest])
    diagonal = known.nonzero()[0]
    found[diagonal, diagonal] = own[diagonal]
    return found


def _extended(part: GramRequest, kernels: Sequence[str]) -> tuple[list[Array], float]:
    """Kernels of all pairs in extended precision."""
    values, error = wide(part, kernels)
    return _given(part, values), error


def wide(part: GramRequest, kernels: Sequence[str]) -> tuple[list[Array], float]:
    """The interpreter in extended precision, on covariances."""
    tables = Tables(
        part.derivation, (part.one, part.other), part.constants, extended=True, demand=part.derivation.demand
    )
    values = of_tables(part, tables, kernels)
    with numpy.errstate(all="ignore"):  # what is infinite in doubles is told where kernels are given out
        return [v.astype(numpy.float64) for v in values], tables.error


def _tiled(asked: GramRequest, progress: Progress) -> KernelPair:
    kernels: tuple[str, ...] = ("nngp",) if asked.derivation.no_ntk else KERNELS
    found, error = [numpy.empty(shape_of(asked), asked.dtype) for _ in kernels], 0.0
    for tile in tiles(asked, kernels, progress):
        for array, value in zip(found, tile.values, strict=True):
            array[tile.rows, tile.columns] = value
            if asked.symmetric and tile.rows != tile.columns:
                put_transposed(array[tile.columns, tile.rows], value)
        error = max(error, tile.error)
    return KernelPair(found[0], found[-1], error, error)
