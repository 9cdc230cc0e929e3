"""Gram matrices of a kernel derivation: tiles of pairs, one triangle of a symmetric one, draws for random logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.limit.kernels.derivation import KernelTables
from tplimits.limit.kernels.leaves import SECOND
from tplimits.numeric.kernels.draws import LogitDraws
from tplimits.numeric.kernels.fused import NotFused
from tplimits.numeric.kernels.fused_run import pairs
from tplimits.numeric.kernels.inputs import Inputs, open_axis, read_constants, read_inputs, same_parameters
from tplimits.numeric.kernels.singular import blocks, suspects
from tplimits.numeric.kernels.stored import GramFiles
from tplimits.numeric.kernels.tables import Tables
from tplimits.program.entries import size_symbol
from tplimits.program.given import seed_number, whole_number
from tplimits.progress import Progress, reporting

Array = NDArray[numpy.float64]
#: makes the array of a kernel, given its name and shape
Allocate = Callable[[str, tuple[int, ...]], Array]
#: the two kernels, in the order of a pair
KERNELS = ("nngp", "ntk")
#: entries of the largest table of one tile
_TILE = 1 << 21


@dataclass(frozen=True)
class KernelPair:
    """NNGP and NTK of two batches of inputs, shape (N1, N2, *axes, *axes); unpacks into the two arrays.

    `nngp_error` and `ntk_error` are bounds of quadrature, or standard errors where logits are drawn.
    """

    nngp: Array
    ntk: Array
    nngp_error: Array | float = field(default=0.0, repr=False)
    ntk_error: Array | float = field(default=0.0, repr=False)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.nngp, self.ntk))


@dataclass(frozen=True)
class NNGPAlone:
    """The NNGP of two batches of inputs where the tangent kernel has no limit: asking for it raises NoLimitError."""

    nngp: Array
    nngp_error: Array | float = field(default=0.0, repr=False)
    reason: str = field(default="", repr=False)

    @property
    def ntk(self) -> Array:
        """What has no limit."""
        raise NoLimitError(self.reason)

    def __iter__(self) -> Iterator[Array]:
        yield self.nngp
        yield self.ntk


@dataclass(frozen=True)
class Request:
    """What is to be evaluated: the derivation, both batches, numbers of constants."""

    derivation: KernelTables
    one: Inputs
    other: Inputs
    constants: Mapping[Expr, float]
    symmetric: bool


def request(
    derivation: KernelTables, X1: Any, X2: Any, given: Mapping[str, Any], ratios: Mapping[str, float] | None
) -> Request:
    """Check and read what a user gave."""
    network = derivation.network
    fixed = {
        network.root_axis(a): int(s) for a in network.all_axes if (s := network.size(a)) is not None and s.is_Integer
    }
    constants, sizes = read_constants(network, given, ratios, fixed)
    one = read_inputs(network, X1, "X1", sizes)
    other = one if X2 is None else read_inputs(network, X2, "X2", sizes)
    for inputs in (one, other):
        open_axis(network, inputs, derivation.infinite)
    same_parameters(network, one, other)
    constants |= {size_symbol(a): float(s) for a, s in one.sizes.items()}
    constants |= {size_symbol(a + SECOND): float(s) for a, s in other.sizes.items()}
    return Request(derivation, one, other, constants, X2 is None)


def evaluate(
    asked: Request, draws: int = 1024, replicates: int = 8, seed: int = 0, progress: Progress = None, out: Any = None
) -> KernelPair | NNGPAlone:
    """Both kernels of a request, in memory or in the files of `out`; the NNGP alone where there is no NTK."""
    pair = _evaluated(asked, draws, replicates, seed, progress, out)
    reason = asked.derivation.no_ntk
    return NNGPAlone(pair.nngp, pair.nngp_error, reason) if reason else pair


def _evaluated(asked: Request, draws: int, replicates: int, seed: int, progress: Progress, out: Any) -> KernelPair:
    refuse_mixture(asked.derivation)
    if out is None:
        fused = None if asked.derivation.is_drawn else _fused(asked)
        if fused is not None:
            _refuse_infinite(asked, KERNELS, list(fused))
            return fused
        return _pair(asked, draws, replicates, seed, progress, lambda _, shape: numpy.empty(shape))
    with GramFiles(out) as files:
        pair = _pair(asked, draws, replicates, seed, progress, files.empty)
        return replace(pair, **files.published())


def _pair(asked: Request, draws: int, replicates: int, seed: int, progress: Progress, empty: Allocate) -> KernelPair:
    if not asked.derivation.is_drawn:
        return _tiled(asked, progress, empty)
    pair = drawn(asked, [(1, 2)], draws, replicates, seed, progress)[1, 2]
    arrays = [empty(kernel, array.shape) for kernel, array in zip(KERNELS, pair, strict=True)]
    for array, value in zip(arrays, pair, strict=True):
        array[...] = value
    return replace(pair, nngp=arrays[0], ntk=arrays[1])


def refuse_mixture(derivation: KernelTables) -> None:
    """Refuse kernels that are random."""
    if derivation.is_mixture:
        raise EvaluationError(
            "with a fixed number of heads and 1/√n logits the limit is a mixture, and the kernels are random: use "
            '.sample(X), or send the heads to infinity with tp.Kernels(infinite=("head",)).'
        )


# -- tiles ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """Some kernels of some pairs, each (rows, columns, *axes, *axes), and a bound of their errors."""

    rows: slice
    columns: slice
    values: list[Array]
    error: float


def tiles(asked: Request, kernels: Sequence[str] = KERNELS, progress: Progress = None) -> Iterator[Tile]:
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
            part = replace(part, symmetric=asked.symmetric and rows == columns)
            pair = _fused(part) if compiled else None
            compiled, error = pair is not None, 0.0
            if pair is not None:
                values = [getattr(pair, kernel) for kernel in kernels]
            else:
                values, error = _of_tables(part, kernels)
            _refuse_infinite(asked, kernels, values, rows.start, columns.start)
            yield Tile(rows, columns, values, error)
            report.advance(1)


def _tiled(asked: Request, progress: Progress, empty: Allocate) -> KernelPair:
    kernels = ("nngp",) if asked.derivation.no_ntk else KERNELS
    found, error = [empty(kernel, shape_of(asked)) for kernel in kernels], 0.0
    for tile in tiles(asked, kernels, progress):
        for array, value in zip(found, tile.values, strict=True):
            array[tile.rows, tile.columns] = value
            if asked.symmetric and tile.rows != tile.columns:
                array[tile.columns, tile.rows] = _transposed(value)
        error = max(error, tile.error)
    return KernelPair(found[0], found[-1], error, error)


def _fused(asked: Request) -> KernelPair | None:
    """Both kernels by one compiled loop, where the recursion has no finite axes and closed forms alone."""
    if asked.derivation.axes:
        return None
    try:
        with numpy.errstate(all="ignore"):
            nngp, ntk = pairs(asked.derivation, asked.one, asked.other, asked.constants, asked.symmetric)
        return KernelPair(nngp, ntk)
    except NotFused:
        return None


def _of_tables(asked: Request, kernels: Sequence[str]) -> tuple[list[Array], float]:
    """Some kernels of all pairs by arrays, nearly singular pairs in extended precision."""
    tables = Tables(asked.derivation, (asked.one, asked.other), asked.constants)
    values = _values(asked, tables, kernels)
    if tables.suspects:
        values = [numpy.array(v) for v in values]
        for rows, columns in blocks(suspects(tables.suspects, (asked.one.many, asked.other.many))):
            part = replace(asked, one=asked.one.some(rows), other=asked.other.some(columns))
            wide = Tables(asked.derivation, (part.one, part.other), asked.constants, extended=True)
            for value, better in zip(values, _values(part, wide, kernels), strict=True):
                value[numpy.ix_(rows, columns)] = better
    return [_dropped(asked, v) for v in values], tables.error


def _values(asked: Request, tables: Tables, kernels: Sequence[str] = KERNELS) -> list[Array]:
    frame, axes = tables.frame(1, 2), asked.derivation.axes
    order = ["input 1", "input 2", *axes, *(a + SECOND for a in axes)]
    one, other = tables.sides
    sizes = (one.many, other.many, *(one.sizes[a] for a in axes), *(other.sizes[a] for a in axes))
    with numpy.errstate(all="ignore"):
        return [numpy.broadcast_to(frame.mean(getattr(asked.derivation, k)).at(order), sizes) for k in kernels]


def shape_of(asked: Request, axes: Sequence[str] | None = None) -> tuple[int, ...]:
    """The shape of a kernel with these output axes, or those that it keeps."""
    axes = asked.derivation.kept if axes is None else axes
    sides = ([asked.one.sizes[a] for a in axes], [asked.other.sizes[a] for a in axes])
    return (asked.one.many, asked.other.many, *sides[0], *sides[1])


def _step(asked: Request) -> int:
    """Inputs a side of a tile, by the largest table."""
    largest = 1
    for table in asked.derivation.tables:
        left = math.prod(asked.one.sizes.get(a.partition("′")[0], 1) for a in table.left)
        right = math.prod(asked.other.sizes.get(a.partition("′")[0], 1) for a in table.right)
        largest = max(largest, left * right)
    return max(1, math.isqrt(_TILE // min(_TILE, largest)))


def _transposed(value: Array) -> Array:
    """K(ξ′, ξ) from K(ξ, ξ′)."""
    axes = value.ndim // 2 - 1
    return value.transpose((1, 0, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)))


def _dropped(asked: Request, value: Array) -> Array:
    """The array without output axes along which outputs are independent and alike."""
    axes = asked.derivation.axes
    for place in reversed(range(len(axes))):
        if axes[place] in asked.derivation.alike:
            many = value.ndim - 2
            value = numpy.take(numpy.take(value, 0, axis=2 + many // 2 + place), 0, axis=2 + place)
    return value


def _refuse_infinite(
    asked: Request, kernels: Sequence[str], values: Sequence[Array], row: int = 0, column: int = 0
) -> None:
    for name, array in zip(kernels, values, strict=True):
        if not numpy.isfinite(array).all():
            i, j = numpy.argwhere(~numpy.isfinite(array))[0][:2]
            raise EvaluationError(
                f"the {name.upper()} of inputs {i + row} and {j + column} is not a finite number: a kernel of "
                f"`{asked.derivation.network.name}` leaves the range of double precision there, or divides by zero "
                "(a layer norm of a zero input?)."
            )


# -- random logits ----------------------------------------------------------------------------


def joint_draws(asked: Request, many: int, seed: int, conditional: bool = False) -> dict[tuple[int, int], Tables]:
    """Tables of all pairs of batches that share draws of the logits."""
    draws = LogitDraws(many, seed)
    sides = (asked.one, asked.other)
    for a, b in ((1, 1), (1, 2), (2, 2)):
        draws.tables[a, b] = Tables(
            asked.derivation, (sides[a - 1], sides[b - 1]), asked.constants, draws, (a, b), conditional
        )
    return draws.tables


def drawn(
    asked: Request,
    places: Sequence[tuple[int, int]],
    draws: int = 1024,
    replicates: int = 8,
    seed: int = 0,
    progress: Progress = None,
) -> dict[tuple[int, int], KernelPair]:
    """Kernels between the batches (1, 1), (1, 2) or (2, 2) of a request, from the same draws."""
    count, many = whole_number(draws), whole_number(replicates)
    if count is None or many is None or many < 2 or count < many:
        raise EvaluationError(
            f"draws={draws!r}, replicates={replicates!r}: whole numbers, 2 replicates or more, of one draw or more."
        )
    base = seed_number(seed, EvaluationError)
    found: dict[tuple[int, int], list[list[Array]]] = {place: [] for place in places}
    with reporting(progress) as report:
        report.plan(many, "replicates of the logits")
        for replicate in range(many):
            tables = joint_draws(asked, max(1, count // many), base * many + replicate)
            for place in places:
                mine = replace(asked, one=tables[place].sides[0], other=tables[place].sides[1])
                found[place].append([_dropped(mine, v) for v in _values(mine, tables[place])])
            report.advance(1)
    return {place: _averaged(asked, values) for place, values in found.items()}


def _averaged(asked: Request, found: list[list[Array]]) -> KernelPair:
    many = len(found)
    means = [numpy.mean([f[i] for f in found], axis=0) for i in (0, 1)]
    errors = [numpy.std([f[i] for f in found], axis=0, ddof=1) / math.sqrt(many) for i in (0, 1)]
    _refuse_infinite(asked, KERNELS, means)
    return KernelPair(means[0], means[1], errors[0], errors[1])


def sampled(asked: Request, draws: int, seed: int) -> tuple[Array, Array]:
    """Kernels given draws of the logits of finitely many heads: (draws, N1, N2, *axes, *axes)."""
    tables = joint_draws(asked, draws, seed_number(seed, EvaluationError), conditional=True)[1, 2]
    frame, axes = tables.frame(1, 2), asked.derivation.axes
    order = ["draw", "input 1", "input 2", *axes, *(a + SECOND for a in axes)]
    kernels = []
    for expr in (asked.derivation.nngp, asked.derivation.ntk):
        value = frame.value(expr)
        kernels.append(_dropped_draws(asked, numpy.broadcast_to(value.at(order), (draws, *shape_of(asked, axes)))))
    return kernels[0], kernels[1]


def _dropped_draws(asked: Request, value: Array) -> Array:
    return numpy.stack([_dropped(asked, v) for v in value])
