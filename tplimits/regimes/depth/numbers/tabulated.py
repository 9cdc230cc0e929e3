"""Gaussian means without a closed form inside compiled steps: Hermite coefficients from tables over the variance.

E f(u) h(u′) = Σ_k a_k(c) b_k(c′) ρ^k (Mehler) with a_k(c) = E[f(√c z) h_k(z)], tabulated at equal steps of log c and
interpolated through six of them; below the lowest variance a_k goes on as the power of c that it is there.  The first
column of a table tells how many coefficients a row has that matter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.jit import njit

if TYPE_CHECKING:
    from tplimits.numbers.moments.function import MomentFunction

#: the lowest variance of the tables, and the highest ones that are tried: exponentials leave the doubles early
LOWEST, HIGHEST = 1e-6, (1e6, 1e4, 1e2, 5.0)
_STEP = 0.1
_POINTS = 6
#: the error of E f(u) h(u′) at variances c, relative to E f² + c/w or E h² + c/w, above which a table is refused; w is
#: what stands before the mean where c is V
TOLERANCE = 1e-4
#: what the coefficients that are left out of a row add to E f², relative to it
_LEFT_OUT = 1e-13
#: how near to a whole number twice a power of c is taken for it
_WHOLE = 1e-3


def tables(moment: MomentFunction, instead: str, weight: float = 1.0) -> tuple[Array, ...]:
    """Tables of both sides of every term of a mean, one of one variable: rows, columns, and the entries row by row.

    Raises EvaluationError where the error, measured between the points of the tables, is above TOLERANCE; `instead`
    says what has the numbers then.
    """
    sides = [(term, side) for term in range(len(moment.factors)) for side in range(len(moment.variables))]
    # the highest first: what grows too fast for its table overflows there, and gets the next one
    for highest in HIGHEST:
        try:
            with numpy.errstate(over="ignore"):
                made = (_made(moment, (term, side), highest, max(weight, 1.0), instead) for term, side in sides)
                return tuple(numpy.concatenate([table.shape, table.ravel()]) for table in made)
        except EvaluationError:
            if highest == HIGHEST[-1]:
                raise
    raise AssertionError


def _made(moment: MomentFunction, which: tuple[int, int], highest: float, weight: float, instead: str) -> Array:
    """The table of one function."""
    term, side = which
    # two points before LOWEST and the rest of the six behind `highest`: inside, interpolation is centred
    count = math.ceil(math.log(highest / LOWEST) / _STEP) + _POINTS
    points = math.log(LOWEST) + _STEP * numpy.arange(-2, count - 2)
    # half way between points Lagrange's error is largest; every eighth cell, as rows cost an integral each
    middle = numpy.exp(points[2:-3:8] + _STEP / 2)
    rows, between = moment.rows(side, numpy.exp(points), term), moment.rows(side, middle, term)
    table = _table(rows.coefficients)
    # orders are chosen by what is left out, and may differ between the two calls
    order = min(rows.order, between.order)
    read = numpy.array([_read(table, float(c))[:order] for c in middle])
    off = numpy.sqrt(((read - between.coefficients[:, :order]) ** 2).sum(axis=1))
    # by Cauchy a change of a_k by `off` changes Σ a_k b_k by at most off times the norm of b, on either side
    error = float(((2 * off * between.norm + between.tail**2) / (between.norm**2 + middle / weight)).max())
    if not error < TOLERANCE:
        raise EvaluationError(
            f"E[{moment.integrand}] has no closed form, and tables of it have an error of {error:.1e}, above "
            f"{TOLERANCE:.0e}; {instead}."
        )
    return table


def _table(coefficients: Array) -> Array:
    """Coefficients behind the number of them that matter."""
    # Parseval: Σ a_k² is E f², and its tail what is lost of it
    left = numpy.cumsum((coefficients**2)[:, ::-1], axis=1)[:, ::-1]
    kept = (left > _LEFT_OUT * numpy.maximum(left[:, :1], 1e-300)).sum(axis=1)
    return numpy.ascontiguousarray(numpy.concatenate([kept[:, None].astype(float), coefficients], axis=1))


def _read(table: Array, c: float) -> Array:
    """A row between those of a table."""
    weights = numpy.empty(_POINTS)
    first = place(c, weights)
    return numpy.asarray(weights @ table[first : first + _POINTS, 1:])


@njit(nogil=True, error_model="numpy")
def place(c: float, weights: Any) -> int:
    """The first of six rows around a variance, and Lagrange's weights; below the table, those of its start."""
    x = (math.log(max(c, LOWEST)) - math.log(LOWEST)) / _STEP
    cell = int(x)
    t = x - cell
    for i in range(_POINTS):
        weight = 1.0
        for j in range(_POINTS):
            if j != i:
                # the variance lies t cells behind the third of the six points
                weight *= (t + 2.0 - j) / (i - j)
        weights[i] = weight
    return cell


@njit(nogil=True, error_model="numpy")
def highest(table: Any) -> float:
    """The highest variance of a table."""
    return LOWEST * math.exp(_STEP * (table[0] - _POINTS))


@njit(nogil=True, error_model="numpy")
def fading(A: Any, column: int, c: float) -> float:
    """What a coefficient is at c below LOWEST, as a part of what it is there: a power of c that two rows tell."""
    if c >= LOWEST:
        return 1.0
    across = int(A[1])
    here, behind = A[2 + 2 * across + column], A[2 + 3 * across + column]
    if here * behind <= 0.0:
        return 0.0
    power = max(math.log(behind / here) / _STEP, 0.0)
    # half of a whole number but for what is smaller by c: kinks and smooth functions have no others
    if abs(2.0 * power - round(2.0 * power)) < _WHOLE:
        power = round(2.0 * power) / 2.0
    return (max(c, 0.0) / LOWEST) ** power  # a step may leave rounding below 0


@njit(nogil=True, error_model="numpy")
def pair(A: Any, B: Any, c11: float, c12: float, c22: float) -> float:
    """E f(u) h(u′); NaN above the tables."""
    # a path that ends in NaN is stopped: better than a value that is extrapolated
    if not (c11 <= highest(A) and c22 <= highest(B)):
        return math.nan
    v, w = numpy.empty(_POINTS), numpy.empty(_POINTS)
    i, j = place(c11, v), place(c22, w)
    scale = math.sqrt(c11) * math.sqrt(c22)
    rho = min(max(c12 / scale, -1.0), 1.0) if scale > 0.0 else 0.0
    # rows lie one behind the other, after their number and their length
    across, along = int(A[1]), int(B[1])
    first, other = 2 + i * across, 2 + j * along
    many = 0
    for q in range(_POINTS):
        # a product of coefficients matters only where both do
        many = max(many, min(int(A[first + q * across]), int(B[other + q * along])))
    total, power = 0.0, 1.0
    for k in range(1, many + 1):
        a, b = 0.0, 0.0
        for q in range(_POINTS):
            a += v[q] * A[first + q * across + k]
            b += w[q] * B[other + q * along + k]
        total += fading(A, k, c11) * a * fading(B, k, c22) * b * power
        power *= rho
        if abs(power) < 1e-16:
            break
    return total


@njit(nogil=True, error_model="numpy")
def single(A: Any, c11: float) -> float:
    """E f(u); NaN above the table."""
    if not c11 <= highest(A):
        return math.nan
    v = numpy.empty(_POINTS)
    i = place(c11, v)
    total = 0.0
    for q in range(_POINTS):
        total += v[q] * A[3 + (i + q) * int(A[1])]
    return fading(A, 1, c11) * total
