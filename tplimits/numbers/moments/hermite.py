"""Hermite coefficients a_k = E[f(√c z) h_k(z)], h_k orthonormal, for many variances c at once."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.law.hypotheses.read_where import may_lie_far_out
from tplimits.numbers.moments.panels import nodes_between, settled_edges, with_kinks
from tplimits.program.nodes.rules import REACH, density, hermite_polynomials

if TYPE_CHECKING:
    from tplimits.numbers.moments.kinks import Kinked

#: orders tried; a higher one where the remainder of a lower one is above `_SMALL` of E f²
ORDERS = (64, 256)
_SMALL = 1e-13
_ROUNDING = 4e-16
#: a doubt above this share of the root of E f² is no number
_UNSETTLED = 1e-2
#: of a mean, at the outermost panels
_OUTSIDE = 1e-9
_BLOCK = 4_000_000
#: values of all orders at all nodes that are kept for the next function at these nodes
_KNOWN = 1 << 18
#: variances beside which asking the largest one first whether an order is enough costs little
_FEW = 8
#: bytes of rows that are remembered
_MEMORY = 1 << 26
_REMEMBERED: OrderedDict[tuple[Kinked, bytes, tuple[int, ...]], HermiteRows] = OrderedDict()
_LOCK = threading.Lock()


class FarOutError(EvaluationError):
    """A mean lies where quadrature does not look."""


@dataclass(frozen=True)
class HermiteRows:
    """Coefficients (N, K) of a function at N variances; `tail` (N,) bounds √Σ_{k ≥ K} a_k², `error` (N,) every a_k.

    `norm` (N,) is √E f².  By Parseval the tail is √(E f² − Σ_{k<K} a_k²), plus the rounding of that difference.
    """

    coefficients: Array
    tail: Array
    error: Array
    norm: Array

    @property
    def order(self) -> int:
        """K."""
        return self.coefficients.shape[1]


def hermite_rows(f: Kinked, variances: Array, orders: tuple[int, ...] = ORDERS) -> HermiteRows:
    """The rows of all variances, to the lowest order that leaves a small remainder, or to the highest one.

    Raises EvaluationError where f is not finite.  Shapes: `variances` (N,).
    """
    variances = numpy.asarray(variances, dtype=numpy.float64)
    for order in orders[:-1]:
        # the largest variance has the slowest coefficients: it tells whether the order is worth trying on all
        if len(variances) > _FEW and not _leaves_little(_rows(f, variances.max(keepdims=True), order)):
            continue
        found = _rows(f, variances, order)
        if _leaves_little(found):
            return found
    return _rows(f, variances, orders[-1])


def _leaves_little(rows: HermiteRows) -> bool:
    return bool((rows.tail <= math.sqrt(_SMALL) * rows.norm).all())


def remembered_rows(f: Kinked, variances: Array, orders: tuple[int, ...] = ORDERS) -> HermiteRows:
    """`hermite_rows`, kept for the other side of a pair, the next tile, and the derivative's neighbours."""
    key = (f, variances.tobytes(), orders)
    with _LOCK:  # draws are evaluated in threads; a rule that is dropped between two looks at it would be a KeyError
        if key in _REMEMBERED:
            _REMEMBERED.move_to_end(key)
            return _REMEMBERED[key]
    found = hermite_rows(f, variances, orders)  # outside: two threads may find the same rows, none waits for another
    with _LOCK:
        _REMEMBERED[key] = found
        while sum(r.coefficients.nbytes for r in _REMEMBERED.values()) > _MEMORY and len(_REMEMBERED) > 1:
            _REMEMBERED.popitem(last=False)
    return found


def forget_rows() -> None:
    """Empty what is remembered."""
    with _LOCK:
        _REMEMBERED.clear()


def _rows(f: Kinked, variances: Array, order: int) -> HermiteRows:
    deviations = numpy.sqrt(variances)
    size = len(deviations)
    coefficients, square, doubt = numpy.zeros((size, order)), numpy.zeros(size), numpy.zeros(size)
    # panels are common to deviations within a factor of two, so that Hermite functions are computed once for them
    _, binade = numpy.frexp(deviations)
    for exponent in numpy.unique(binade):
        members = numpy.flatnonzero(binade == exponent)
        chosen = deviations[members]
        edges, left = settled_edges(f, float(chosen.min()), float(chosen.max()), order)
        # order 1 is a mean alone, of f; expansions need E f² for the Parseval remainder
        _refuse_unseen(f, edges, float(chosen.max()), 1 if order == 1 else 2)
        step = max(1, _BLOCK // (len(edges) * 16))
        for start in range(0, len(members), step):
            part = members[start : start + step]
            coefficients[part], square[part] = _integrated(f, edges, deviations[part], order)
        doubt[members] = left
    if doubt.max(initial=0.0) > _UNSETTLED:
        raise EvaluationError(
            f"moment not established: the integral of `{f.function}` over {f.variable} does not settle as panels are "
            "refined, and may be infinite. Keep the function away from its pole."
        )
    if not numpy.isfinite(coefficients).all():
        raise EvaluationError(f"`{f.function}` has no finite value at some {f.variable}.")
    # rounding in coefficients that are zero would be all there is at small correlations
    if f.parity is not None:  # where kinks move, both halves were summed
        coefficients[:, 1 - f.parity :: 2] = 0.0
    norm = numpy.sqrt(square)
    error = (doubt + _ROUNDING) * norm
    # the difference of two nearly equal numbers: its rounding is added, not hidden
    left_over = numpy.maximum(square - (coefficients**2).sum(axis=1), 0.0)
    return HermiteRows(coefficients, numpy.sqrt(left_over + (4 * _ROUNDING + doubt) * square), error, norm)


def _refuse_unseen(f: Kinked, edges: Array, deviation: float, power: int) -> None:
    """EvaluationError where the mean of a power of |f| lies at the outermost panels: exp(12 z)² at z = 24.

    That of relu(z − 20) lies there too, and is nothing: without exponentials the density outruns what is beyond.
    """
    if not deviation or not may_lie_far_out(f.function):
        return
    z, w = nodes_between(with_kinks(edges, f.cuts, numpy.array([deviation]))[0])
    values = abs(f.weighed(deviation * z, w))
    # as shares of the largest one: squares of small numbers are no doubles
    sizes = (values / (values.max() or 1.0)) ** power * w * density(z)
    # what lies just inside the edge tells what lies outside, also where nothing of it is a double
    if sizes[abs(z) > REACH - 0.5].sum() >= _OUTSIDE * sizes.sum():
        raise FarOutError(
            f"moment not established: the mean of `{f.function}` to the power {power} lies further out than quadrature "
            f"looks, at {REACH:.0f} standard deviations, or is too small for a double. Narrow the argument of the "
            "exponential, or give it a form whose mean is closed."
        )


def _integrated(f: Kinked, edges: Array, deviations: Array, order: int) -> tuple[Array, Array]:
    """(coefficients, E f²) on common panels, or on panels of each variance where kinks move."""
    # a kink at x = t is at z = t/√c, another place for each variance: no common nodes
    if any(t != 0 for t in f.cuts):
        z, w = nodes_between(with_kinks(edges, f.cuts, deviations))
        values = f.weighed(deviations[:, None] * z, w)
        return _moving(values * w, z, order), (values**2 * w * density(z)).sum(axis=1)
    kept = slice(None)
    if f.parity is not None:  # half of the nodes, twice, and half of the orders
        edges, kept = numpy.unique(abs(edges)), slice(f.parity, None, 2)
    z, w = nodes_between(edges)
    w = w if f.parity is None else 2 * w
    values = f(deviations[:, None] * z)
    found = numpy.zeros((len(deviations), order))
    step = max(1, _BLOCK // order)
    for start in range(0, len(z), step):
        some = slice(start, start + step)
        # the density is shared between both factors: Hermite polynomials alone overflow at high orders
        weights = w[some] * numpy.exp(-(z[some] ** 2) / 4)
        found[:, kept] += values[:, some] @ (_functions(z[some], order)[kept] * weights).T
    return found, values**2 @ (w * density(z))


def _functions(z: Array, order: int) -> Array:
    """h_k(z) e^(−z²/4)/√(2π) for k < order, (order, nodes): a function and its derivative have the same nodes."""
    return (_known_functions if order * z.size <= _KNOWN else _functions_at)(z.tobytes(), order)


def _functions_at(nodes: bytes, order: int) -> Array:
    z = numpy.frombuffer(nodes)
    return hermite_polynomials(z, order, numpy.exp(-(z**2) / 4) / math.sqrt(2 * math.pi))


_known_functions = lru_cache(maxsize=8)(_functions_at)


def _moving(weighted: Array, z: Array, order: int) -> Array:
    """Coefficients from nodes of their own in every row, without storing all functions."""
    now, before = numpy.exp(-(z**2) / 4) / math.sqrt(2 * math.pi), numpy.zeros_like(z)
    weighted = weighted * numpy.exp(-(z**2) / 4)
    found = numpy.zeros((len(z), order))
    for k in range(order):
        found[:, k] = (weighted * now).sum(axis=1)
        # three-term recursion of the orthonormal polynomials
        now, before = (z * now - math.sqrt(k) * before) / math.sqrt(k + 1), now
    return found
