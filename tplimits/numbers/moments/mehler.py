"""E f(g) h(g') = Σ_k a_k b_k ρ^k: Mehler's expansion from Hermite coefficients of each side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.numbers.jit import njit

if TYPE_CHECKING:
    from tplimits.numbers.moments.hermite import HermiteRows

Places = NDArray[numpy.intp]

#: rounding of the sum, relative to √(E f² E h²), which bounds the sum of absolute values
_ROUNDING = 2e-15
#: the logarithm of what a power of ρ may be left out at
_NEGLIGIBLE = math.log(1e-18)
#: that of the smallest share in an error: processors take ten times as long over numbers below the smallest normal one
_SMALLEST = -700.0


@njit(error_model="numpy", nogil=True)
def mehler_sum(a: Array, b: Array, rho: float, many: int) -> float:
    """Σ_{k < many} a[k] b[k] ρ^k of two rows of coefficients; compiled, to be called from compiled code."""
    total = 0.0
    for k in range(many - 1, -1, -1):
        total = total * rho + a[k] * b[k]
    return total


@njit(error_model="numpy", nogil=True)
def _sums(a: Array, b: Array, left: Places, right: Places, rho: Array, many: Places, out: Array) -> None:
    for n in range(rho.shape[0]):
        out[n] = mehler_sum(a[left[n]], b[right[n]], rho[n], many[n])


def mehler(a: HermiteRows, b: HermiteRows, left: Places, right: Places, rho: Array) -> tuple[Array, Array]:
    """(value, error) of pairs (left[n], right[n]) of rows at correlations ρ[n].

    The error is |ρ|^K √(tails), by Cauchy–Schwarz, plus the errors of the coefficients from the lowest power that both
    functions have, plus rounding.  Powers that |ρ|^K has made smaller than rounding are left out.
    """
    order = min(a.order, b.order)
    values = numpy.zeros(len(rho))
    powers = _powers(a, b)
    if not len(powers):
        return values, values.copy()
    lowest, stride = int(powers[0]), int(numpy.gcd.reduce(numpy.diff(powers))) if len(powers) > 1 else 1
    kept = slice(lowest, int(powers[-1]) + 1, stride)
    size = abs(rho)
    with numpy.errstate(under="ignore", divide="ignore", invalid="ignore"):
        rows = len(range(lowest, int(powers[-1]) + 1, stride))
        logarithm = numpy.log(size)
        # most pairs are far from collinear and need few of the powers
        enough = numpy.ceil(_NEGLIGIBLE / (stride * logarithm))  # ρ^(stride·many) is below rounding
        many = numpy.where((size < 1) & (enough < rows), enough, rows).astype(numpy.intp)
        columns = [numpy.ascontiguousarray(r.coefficients[:, kept]) for r in (a, b)]
        # of one parity every second coefficient is 0: half of the work, and no rounding from them
        _sums(columns[0], columns[1], left, right, rho**stride, numpy.maximum(many, 1), values)
        first = rho**lowest
        one, other = a.norm[left], b.norm[right]
        share = numpy.exp(numpy.maximum(order * logarithm, _SMALLEST))
        tail = share * (_beyond(a, order)[left] * _beyond(b, order)[right])
        doubt = a.error[left] * other + one * b.error[right]
    return values * first, tail + (doubt + _ROUNDING * one * other) * abs(first)


def _beyond(rows: HermiteRows, order: int) -> Array:
    """√Σ_{k ≥ order} a_k²."""
    return numpy.sqrt(rows.tail**2 + (rows.coefficients[:, order:] ** 2).sum(axis=1))


def _powers(a: HermiteRows, b: HermiteRows) -> Places:
    """The k at which a product is not zero by parity, from the lowest."""
    order = min(a.order, b.order)
    present = (a.coefficients[:, :order] != 0).any(axis=0) & (b.coefficients[:, :order] != 0).any(axis=0)
    return numpy.flatnonzero(present)
