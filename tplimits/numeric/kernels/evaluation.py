"""Gram matrices of a kernel derivation: tiles of pairs, one triangle of a symmetric one, draws where logits are random."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.limit.kernels.derivation import KernelTables
from tplimits.limit.kernels.leaves import SECOND, DrawMean
from tplimits.numeric.kernels.draws import LogitDraws
from tplimits.numeric.kernels.fused import NotFused
from tplimits.numeric.kernels.fused_run import pairs
from tplimits.numeric.kernels.inputs import Inputs, open_axis, read_constants, read_inputs, same_parameters
from tplimits.numeric.kernels.tables import Tables
from tplimits.program.entries import size_symbol
from tplimits.program.given import seed_number, whole_number
from tplimits.progress import Progress, reporting

Array = NDArray[numpy.float64]
#: entries of the largest table of one tile
_TILE = 1 << 21


@dataclass(frozen=True)
class KernelPair:
    """NNGP and NTK of two batches of inputs, shape (N1, N2, *axes, *axes); unpacks into the two arrays.

    `nngp_error` and `ntk_error` are bounds of quadrature, or standard errors where logits are drawn.
    """

    nngp: Array
    tangent: Array = field(repr=False)
    nngp_error: Array | float = field(default=0.0, repr=False)
    ntk_error: Array | float = field(default=0.0, repr=False)
    no_ntk: str = field(default="", repr=False)

    @property
    def ntk(self) -> Array:
        """The tangent kernel.  Raises NoLimitError, with the reason, where a network has none."""
        if self.no_ntk:
            raise NoLimitError(self.no_ntk)
        return self.tangent

    def __iter__(self) -> Iterator[Array]:
        return iter((self.nngp, self.ntk))


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
    fixed = {network.root_axis(a): int(s) for a in network.all_axes if (s := network.size(a)) is not None and s.is_Integer}
    constants, sizes = read_constants(network, given, ratios, fixed)
    one = read_inputs(network, X1, "X1", sizes)
    other = one if X2 is None else read_inputs(network, X2, "X2", sizes)
    for inputs in (one, other):
        open_axis(network, inputs, derivation.infinite)
    same_parameters(network, one, other)
    constants |= {size_symbol(a): float(s) for a, s in one.sizes.items()}
    constants |= {size_symbol(a + SECOND): float(s) for a, s in other.sizes.items()}
    return Request(derivation, one, other, constants, X2 is None)


def evaluate(asked: Request, draws: int = 1024, replicates: int = 8, seed: int = 0, progress: Progress = None) -> KernelPair:
    """Both kernels of a request."""
    if asked.derivation.recursion.given:
        raise EvaluationError(
            "with a fixed number of heads and 1/√n logits the limit is a mixture, and the kernels are random: use "
            '.sample(X), or send the heads to infinity with tp.Kernels(infinite=("head",)).'
        )
    if any(t.definition.has(DrawMean) for t in asked.derivation.tables):
        return _drawn(asked, draws, replicates, seed, progress)
    fused = _fused(asked)
    return _finite(asked, fused) if fused is not None else _tiled(asked, progress)


# -- tiles ------------------------------------------------------------------------------------


def _tiled(asked: Request, progress: Progress) -> KernelPair:
    shape = _shape(asked)
    found = [numpy.empty(shape), numpy.empty(shape)]
    errors = [0.0, 0.0]
    step = _step(asked)
    tiles = [
        (slice(i, min(i + step, asked.one.many)), slice(j, min(j + step, asked.other.many)))
        for i in range(0, asked.one.many, step)
        for j in range(i if asked.symmetric else 0, asked.other.many, step)
    ]
    with reporting(progress) as report:
        report.plan(len(tiles), "tiles of pairs")
        for rows, columns in tiles:
            values, error = _tile(asked, rows, columns)
            for array, value in zip(found, values, strict=True):
                array[rows, columns] = value
                if asked.symmetric and rows != columns:
                    array[columns, rows] = _transposed(value, len(asked.derivation.axes))
            errors = [max(a, b) for a, b in zip(errors, error, strict=True)]
            report.advance(1)
    return _finite(asked, KernelPair(*(_dropped(asked, a) for a in found), *errors))


def _fused(asked: Request) -> KernelPair | None:
    """Both kernels by one compiled loop, where the recursion has no finite axes and closed forms alone."""
    if asked.derivation.axes:
        return None
    try:
        return KernelPair(*pairs(asked.derivation, asked.one, asked.other, asked.constants, asked.symmetric))
    except NotFused:
        return None


def _tile(asked: Request, rows: slice, columns: slice) -> tuple[list[Array], list[float]]:
    tables = Tables(asked.derivation, (asked.one.some(rows), asked.other.some(columns)), asked.constants)
    return _values(asked, tables), [tables.error, tables.error]


def _values(asked: Request, tables: Tables) -> list[Array]:
    frame, axes = tables.frame(1, 2), asked.derivation.axes
    order = ["input 1", "input 2", *axes, *(a + SECOND for a in axes)]
    one, other = tables.sides
    sizes = (one.many, other.many, *(one.sizes[a] for a in axes), *(other.sizes[a] for a in axes))
    with numpy.errstate(all="ignore"):
        return [numpy.broadcast_to(frame.mean(e).at(order), sizes) for e in (asked.derivation.nngp, asked.derivation.ntk)]


def _shape(asked: Request) -> tuple[int, ...]:
    axes = asked.derivation.axes
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


def _transposed(value: Array, axes: int) -> Array:
    """K(ξ′, ξ) from K(ξ, ξ′)."""
    return value.transpose((1, 0, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)))


def _dropped(asked: Request, value: Array) -> Array:
    """The array without output axes along which outputs are independent and alike."""
    axes = asked.derivation.axes
    for place in reversed(range(len(axes))):
        if axes[place] in asked.derivation.alike:
            many = value.ndim - 2
            value = numpy.take(numpy.take(value, 0, axis=2 + many // 2 + place), 0, axis=2 + place)
    return value


def _finite(asked: Request, pair: KernelPair) -> KernelPair:
    pair = replace(pair, no_ntk=asked.derivation.no_ntk)
    for name, array in (("NNGP", pair.nngp), ("NTK", pair.tangent)):
        if not numpy.isfinite(array).all():
            i, j = numpy.argwhere(~numpy.isfinite(array))[0][:2]
            raise EvaluationError(
                f"the {name} of inputs {i} and {j} is not a finite number: a kernel of `{asked.derivation.network.name}` "
                "leaves the range of double precision there, or divides by zero (a layer norm of a zero input?)."
            )
    return pair


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


def _drawn(asked: Request, draws: int, replicates: int, seed: int, progress: Progress) -> KernelPair:
    count, many = whole_number(draws), whole_number(replicates)
    if count is None or many is None or many < 2 or count < many:
        raise EvaluationError(f"draws={draws!r}, replicates={replicates!r}: whole numbers, 2 replicates or more, of one draw or more.")
    base = seed_number(seed, EvaluationError)
    found: list[list[Array]] = []
    with reporting(progress) as report:
        report.plan(many, "replicates of the logits")
        for replicate in range(many):
            tables = joint_draws(asked, max(1, count // many), base * many + replicate)
            found.append([_dropped(asked, v) for v in _values(asked, tables[1, 2])])
            report.advance(1)
    means = [numpy.mean([f[i] for f in found], axis=0) for i in (0, 1)]
    errors = [numpy.std([f[i] for f in found], axis=0, ddof=1) / math.sqrt(many) for i in (0, 1)]
    return _finite(asked, KernelPair(*means, *errors))


def sampled(asked: Request, draws: int, seed: int) -> tuple[Array, Array]:
    """Kernels given draws of the logits of finitely many heads: (draws, N1, N2, *axes, *axes)."""
    tables = joint_draws(asked, draws, seed_number(seed, EvaluationError), conditional=True)[1, 2]
    frame, axes = tables.frame(1, 2), asked.derivation.axes
    order = ["draw", "input 1", "input 2", *axes, *(a + SECOND for a in axes)]
    kernels = []
    for expr in (asked.derivation.nngp, asked.derivation.ntk):
        value = frame.value(expr)
        kernels.append(_dropped_draws(asked, numpy.broadcast_to(value.at(order), (draws, *_shape(asked)))))
    return kernels[0], kernels[1]


def _dropped_draws(asked: Request, value: Array) -> Array:
    return numpy.stack([_dropped(asked, v) for v in value])


