"""E f(g) h(g') = Σ_k a_k b_k ρ^k: Mehler's expansion from Hermite coefficients of each side."""

from __future__ import annotations

import numpy
from numba import njit
from numpy.typing import NDArray

from tplimits.numeric.moments.hermite import HermiteRows
from tplimits.program.evaluate import Array

Places = NDArray[numpy.intp]

#: rounding of the sum, relative to the sum of absolute values
_ROUNDING = 2e-15


@njit(error_model="numpy", nogil=True, cache=True)
def mehler_sum(a: Array, b: Array, rho: float) -> float:
    """Σ_k a[k] b[k] ρ^k of two rows of coefficients; compiled, to be called from compiled code."""
    total = 0.0
    for k in range(min(a.shape[0], b.shape[0]) - 1, -1, -1):
        total = total * rho + a[k] * b[k]
    return total


@njit(error_model="numpy", nogil=True, cache=True)
def _sums(a: Array, b: Array, left: Places, right: Places, rho: Array, out: Array, size: Array) -> None:
    for n in range(rho.shape[0]):
        out[n] = mehler_sum(a[left[n]], b[right[n]], rho[n])
        total = 0.0
        for k in range(min(a.shape[1], b.shape[1]) - 1, -1, -1):
            total = total * abs(rho[n]) + abs(a[left[n], k] * b[right[n], k])
        size[n] = total


def mehler(a: HermiteRows, b: HermiteRows, left: Places, right: Places, rho: Array) -> tuple[Array, Array]:
    """(value, error) of pairs (left[n], right[n]) of rows at correlations ρ[n].

    The error is |ρ|^K √(tails), by Cauchy–Schwarz, plus the errors of the coefficients from the lowest power that both
    functions have, plus rounding.
    """
    order = min(a.order, b.order)
    values, size = numpy.empty(len(rho)), numpy.empty(len(rho))
    _sums(a.coefficients, b.coefficients, left, right, rho, values, size)
    with numpy.errstate(under="ignore"):
        tail = abs(rho) ** order * _beyond(a, order)[left] * _beyond(b, order)[right]
        doubt = a.error[left] * b.norm[right] + a.norm[left] * b.error[right]
        lowest = _lowest(a, b)
        error = tail + doubt * abs(rho) ** lowest if lowest is not None else numpy.zeros(len(rho))
    return values, error + _ROUNDING * size


def _beyond(rows: HermiteRows, order: int) -> Array:
    """√Σ_{k ≥ order} a_k²."""
    return numpy.sqrt(rows.tail**2 + (rows.coefficients[:, order:] ** 2).sum(axis=1))


def _lowest(a: HermiteRows, b: HermiteRows) -> int | None:
    """The lowest k at which a product is not zero by parity; None where there is none."""
    order = min(a.order, b.order)
    present = (a.coefficients[:, :order] != 0).any(axis=0) & (b.coefficients[:, :order] != 0).any(axis=0)
    return int(present.argmax()) if present.any() else None
