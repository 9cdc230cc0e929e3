"""Hermite coefficients of a smooth function of several Gaussian variables, and Mehler's sum of two such rows.

    E f(x) h(y) = Σ_k Σ_{|α| = |β| = k} a_α b_β T_k[α, β],     x = F u, y = G v,     a_α = E f(F u) H_α(u)

with u, v white, Cov(u, v) = R, ‖R‖ ≤ 1, H_α products of orthonormal Hermite polynomials, and

    T_k[α, β] = E H_α(u) H_β(v) = (1/k) Σ_ij R_ij √(α_i β_j) T_{k−1}[α − e_i, β − e_j],     ‖T_k‖ ≤ ‖R‖^k,

so that what lies beyond order K is at most ‖R‖^K times the roots of what the coefficients miss of E f² and of E h².
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy
from numpy.typing import NDArray
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.numbers.cut_grid import RADIUS, SMOOTH, grid
from tplimits.numbers.cuts import Cutting, Planes
from tplimits.numbers.frame import Frame, independent_frame
from tplimits.numbers.jit import njit
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.rules import hermite_polynomials

Places = NDArray[numpy.intp]

#: orders that are tried, by the number of variables; more variables have too many coefficients
ORDERS = {0: (1, 1), 1: (64, 256), 2: (32, 96)}
#: the first resolution: coarser ones do not follow polynomials
_COARSEST = 1
#: nodes of less than this weight are left out: high orders see further than densities do
_LIGHT = 1e-30
#: nodes beyond which no finer rule is tried, those that are looked at together, and what two rules agree to
_NODES, _TOGETHER, _AGREED = 1_500_000, 1 << 20, 1e-9
_ROUNDING = 4e-16
#: the logarithm of what a power of ‖R‖ may be left out at, and the share of E f² that coefficients are left out at
_NEGLIGIBLE, _NOTHING = math.log(1e-18), 1e-25


@dataclass(frozen=True)
class Rows:
    """Coefficients of a function under one law, degree by degree; `whitening` makes u of the variables.

    `order` is where what is left is rounding; `tail` bounds √Σ a² from there on, `half` from half of all orders on,
    `error` is the distance to the coefficients of a coarser rule, `norm` is √E f².
    """

    whitening: Array
    coefficients: Array
    order: int
    tail: float
    half: float
    error: float
    norm: float


@lru_cache(maxsize=4096)
def rows(function: Expr, variables: tuple[Symbol, ...], law: tuple[float, ...], finer: int = 0) -> Rows:
    """The coefficients under the law with this covariance, row by row, to the first order that is tried or the next."""
    size = len(variables)
    if not size:
        value = float(evaluate(function, {}))
        return Rows(numpy.zeros((0, 0)), numpy.array([value]), 1, 0.0, 0.0, 0.0, abs(value))
    frame = independent_frame(numpy.reshape(law, (size, size)))
    whitening = numpy.zeros((size, size))
    whitening[: frame.rank] = numpy.linalg.pinv(frame.factor)
    found, square, error, doubt = _settled(function, variables, frame, ORDERS[size][finer])
    found = found.reshape(found.shape + (1,) * (size - frame.rank))
    table = indices(size)
    starts = table.starts[: ORDERS[size][finer] + 1]
    powers = table.powers[: starts[-1]]
    kept = (powers < found.shape).all(axis=1)
    coefficients = numpy.zeros(len(powers))
    coefficients[kept] = found[tuple(powers[kept].T)]
    squares = numpy.add.reduceat(coefficients**2, starts[:-1])
    beyond = numpy.cumsum(squares[::-1])[::-1]  # from each order on
    order = max(1, int((beyond > _NOTHING * square).sum()))
    missing = max(square - float(squares.sum()), 0.0) + doubt + _ROUNDING * square
    tail, half = (math.sqrt(missing + float(beyond[k:].max(initial=0.0))) + error for k in (order, len(squares) // 2))
    return Rows(whitening, coefficients, order, tail, half, error, math.sqrt(square))


def _settled(
    function: Expr, variables: Sequence[Symbol], frame: Frame, order: int
) -> tuple[Array, float, float, float]:
    """(coefficients, E f²) of the finest rule that is needed, and how far those of a coarser one are from each."""
    if not frame.rank:
        value = float(evaluate(function, dict.fromkeys(variables, 0.0)))
        return numpy.array(value), value**2, 0.0, 0.0
    uncut = Cutting(Planes((), ()), frame.rank, RADIUS[frame.rank])
    found, square, error, doubt = numpy.zeros((order,) * frame.rank), 0.0, math.inf, math.inf
    for level in range(_COARSEST, len(SMOOTH[frame.rank])):
        nodes, weights = (part[0] for part in grid(uncut, level, least=_LIGHT))
        with numpy.errstate(all="ignore"):
            values = evaluate(function, dict(zip(variables, frame.factor @ nodes.T, strict=True)))
        before, last = found, square
        found, square = _projected(numpy.broadcast_to(values, weights.shape), nodes, weights, order)
        error, doubt = float(numpy.linalg.norm(found - before)), abs(square - last)
        if (error <= _AGREED * math.sqrt(square) and doubt <= _AGREED * square) or weights.size > _NODES:
            break
    return found, square, error, doubt


def _projected(values: Array, nodes: Array, weights: Array, order: int) -> tuple[Array, float]:
    """Means of f times all products of Hermite polynomials below an order, (order,) * rank, and of f²."""
    rank = nodes.shape[1]
    total = numpy.zeros((order,) * rank)
    step = max(1, _TOGETHER // order ** (rank - 1))
    for start in range(0, len(nodes), step):
        some = slice(start, start + step)
        left = (values[some] * weights[some])[None, :]
        for k in range(rank):
            mine = hermite_polynomials(nodes[some, k], order, numpy.ones(left.shape[1]))
            if k == rank - 1:
                total += (left @ mine.T).reshape(total.shape)
            else:
                left = (left[:, None, :] * mine[None, :, :]).reshape(-1, left.shape[1])
    return total, float(values**2 @ weights)


@dataclass(frozen=True)
class Indices:
    """All α of degrees below an order, degree by degree from `starts`; where α − e_i stands in its degree, and √α_i."""

    powers: NDArray[numpy.intp]
    starts: NDArray[numpy.intp]
    below: NDArray[numpy.intp]
    roots: Array


@lru_cache(maxsize=8)
def indices(size: int) -> Indices:
    """Those of so many variables."""
    degrees = [
        [α for α in itertools.product(range(k + 1), repeat=size) if sum(α) == k] for k in range(max(ORDERS[size]))
    ]
    place = {α: i for degree in degrees for i, α in enumerate(degree)}
    powers = numpy.array([α for degree in degrees for α in degree], dtype=numpy.intp).reshape(-1, size)
    below = [[place.get((*α[:i], α[i] - 1, *α[i + 1 :]), 0) for i in range(size)] for d in degrees for α in d]
    starts = numpy.cumsum([0, *map(len, degrees)])
    return Indices(powers, starts, numpy.array(below, dtype=numpy.intp).reshape(-1, size), numpy.sqrt(powers))


def mean_of_products(
    left: tuple[Sequence[Rows], Places], right: tuple[Sequence[Rows], Places], cross: Array
) -> tuple[Array, Array, Array, Array]:
    """(value, error, √(E f² E h²), hope) at covariances (N, p, q); of either side rows, and which each entry has.

    The hope is that the remainder falls from one order to the next as it does from half an order on.
    """
    (ones, one), (others, other) = left, right
    white = numpy.stack([r.whitening for r in ones])[one] @ cross @ numpy.stack([r.whitening for r in others])[other].mT
    size = numpy.linalg.norm(white, ord=2, axis=(1, 2)) if white.size else numpy.zeros(len(white))
    white /= numpy.maximum(size, 1.0)[:, None, None]  # rounding
    size = numpy.minimum(size, 1.0)
    (norm, tail, half, doubt, order), (its_norm, its_tail, its_half, its_doubt, its_order) = (
        numpy.array([(r.norm, r.tail, r.half, r.error, r.order) for r in rs])[at].T for rs, at in (left, right)
    )
    many = numpy.minimum(order, its_order)
    # of the side that goes further nothing is known beyond the order of the other
    tail, its_tail = numpy.where(order > many, norm, tail), numpy.where(its_order > many, its_norm, its_tail)
    with numpy.errstate(divide="ignore"):
        enough = numpy.where(size < 1, numpy.ceil(_NEGLIGIBLE / numpy.log(size)), many)
    value = numpy.empty(len(white))
    tables = [t for s in white.shape[1:] for t in (indices(s).starts, indices(s).below, indices(s).roots)]
    a, b = (numpy.stack([r.coefficients for r in rs]) for rs in (ones, others))
    _sums(a, b, one, other, white, numpy.minimum(many, numpy.maximum(enough, 1)).astype(numpy.intp), *tables, value)
    first, finer = ORDERS[max(white.shape[1:])]
    norms, left_over = norm * its_norm, size**many * tail * its_tail
    error = left_over + doubt * its_norm + norm * its_doubt + 8 * _ROUNDING * norms
    falls = (tail * its_tail / (half * its_half)) ** math.log2(finer / first) * size ** (finer - first)
    return value, error, norms, falls * left_over


@njit(error_model="numpy", nogil=True)
def _sums(
    a: Array,
    b: Array,
    left: Places,
    right: Places,
    cross: Array,
    many: Places,
    starts: Places,
    below: Places,
    roots: Array,
    its_starts: Places,
    its_below: Places,
    its_roots: Array,
    out: Array,
) -> None:
    wide, its_wide = starts[-1] - starts[-2], its_starts[-1] - its_starts[-2]
    now, before = numpy.empty((wide, its_wide)), numpy.empty((wide, its_wide))
    for n in range(cross.shape[0]):
        f, h, R = a[left[n]], b[right[n]], cross[n]
        total = f[0] * h[0]
        before[0, 0] = 1.0
        for k in range(1, many[n]):
            s, t = starts[k], its_starts[k]
            for x in range(starts[k + 1] - s):
                part = 0.0
                for y in range(its_starts[k + 1] - t):
                    entry = 0.0
                    for i in range(R.shape[0]):
                        if roots[s + x, i] > 0:
                            for j in range(R.shape[1]):
                                if its_roots[t + y, j] > 0:
                                    c = R[i, j] * roots[s + x, i] * its_roots[t + y, j]
                                    entry += c * before[below[s + x, i], its_below[t + y, j]]
                    now[x, y] = entry / k
                    part += now[x, y] * h[t + y]
                total += f[s + x] * part
            now, before = before, now
        out[n] = total
