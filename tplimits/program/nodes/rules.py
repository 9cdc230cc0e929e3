"""Rules for means over normal variables on arrays: nodes, weights, the density, Hermite polynomials.

Integrals over panels of a line are halved until the Gauss–Legendre rule and its two halves agree; also up to a pole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: beyond ±38 the normal density is zero in double precision; nodes beyond a share of it are outermost
RADIUS, _FAR = 38, 0.95
#: nodes of a panel
_COUNT = 20
#: two values of a panel agree, relative to E|f|; rounding of a sum; the error that a number may have
_AGREED, ROUNDING, ENOUGH = 1e-15, 2e-15, 1e-9
#: rounds of halving, panels in one round, nodes in all
_ROUNDS, _PANELS, _MOST = 300, 40_000, 8_000_000
#: halvings of the distance from a pole, whose square is still a double then
_HALVINGS = 200
#: a ratio of two panels beside a pole that is 1, and so no integral
_DIVERGENT = 1 - 1e-6
#: two values of the panel beside a pole that is none, relative to each other
_SMOOTH = 1e-12
#: why there is no number
NOT_SEEN = "is not seen to be a finite real number: keep the function away from its pole, or bound it"
#: f times the density at places
Line = Callable[[Array], Array]

#: beyond these deviations the density times a square root of it is below double rounding
REACH = 14.0


def density(z: Array) -> Array:
    """The standard normal density."""
    return numpy.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


@lru_cache(maxsize=64)
def legendre(count: int) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on [−1, 1]."""
    return numpy.polynomial.legendre.leggauss(count)


@lru_cache(maxsize=64)
def hermite(count: int) -> tuple[Array, Array]:
    """Gauss–Hermite nodes and weights of a standard normal variable, exact for polynomials below degree 2·count."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / math.sqrt(2 * math.pi)


def hermite_polynomials(z: Array, order: int, first: Array) -> Array:
    """Orthonormal h_k(z) for k < order, times `first`, which stands for h_0: (order, nodes)."""
    found = numpy.zeros((order, *z.shape))
    found[0] = first
    for k in range(1, order):
        numpy.multiply(z, found[k - 1], out=found[k])
        if k > 1:
            found[k] -= math.sqrt(k - 1) * found[k - 2]
        found[k] /= math.sqrt(k)
    return found


def panels(edges: Array, rule: tuple[Array, Array]) -> tuple[Array, Array]:
    """Nodes and weights of a rule on the pieces between edges (…, pieces + 1): (…, pieces, nodes)."""
    x, w = rule
    half = (edges[..., 1:] - edges[..., :-1])[..., None] / 2
    middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    return middle + half * x, half * w


@dataclass(frozen=True)
class Mean:
    """E f ± error, and E|f|."""

    value: float
    error: float
    size: float

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.value + other.value, self.error + other.error, self.size + other.size)


class Unseen(Exception):
    """Why a mean has no number as it is written."""


def to_the_pole(line: Line, reach: float) -> Mean:
    """The integral over distances up to `reach`: panel by panel, and what is left by the ratio of the last two."""
    ends = reach * 2.0 ** -numpy.arange(_HALVINGS + 1.0)[::-1]
    if (near := _smooth(line, ends)) is not None:
        k, inside = near
        return inside + settled(line, ends[k:-1], ends[k + 1 :])
    found = settled(line, ends[:-1], ends[1:])
    values, sizes, _ = _rule(line, ends[:4], ends[1:5])
    if not sizes[0]:
        return found
    left = []
    for first, second in ((0, 1), (1, 2)):
        ratio = sizes[first] / sizes[second] if sizes[second] else math.nan
        if not ratio < _DIVERGENT:
            raise EvaluationError(
                "the mean of a function over a standard normal is infinite, or not seen to be finite, at a singular "
                "point: keep the function away from its pole."
            )
        left.append(values[0] * ratio / (1 - ratio))
    error = abs(left[0] - left[1]) + 4 * ROUNDING * abs(left[0]) / (1 - ratio)
    return found + Mean(float(left[0]), float(error), abs(float(left[0])))


def _smooth(line: Line, ends: Array) -> tuple[int, Mean] | None:
    """The last of some distances up to which a rule and its halves agree, and the integral; None where none do.

    Nearer to a removable pole, as of log(1 + g²)/g², there is nothing but rounding.
    """
    (whole, size, _), left, right = (_rule(line, low * ends, high * ends) for low, high in ((0, 1), (0, 0.5), (0.5, 1)))
    value = left[0] + right[0]
    doubt = abs(value - whole)
    agreed = numpy.flatnonzero((size > 0) & (doubt <= _SMOOTH * size))
    if not agreed.size:
        return None
    k = int(agreed[-1])
    return k, Mean(float(value[k]), float(2 * doubt[k] + ROUNDING * size[k]), float(size[k]))


def settled(line: Line, low: Array, high: Array) -> Mean:
    """The integral over panels, halved where two values of them differ; what is left open is its error."""
    value, done, spent = _rule(line, low, high)[0], Mean(0.0, 0.0, 0.0), low.size
    for _ in range(_ROUNDS):
        if not low.size:
            return done
        middle = (low + high) / 2
        first, second = _rule(line, low, middle), _rule(line, middle, high)
        spent += 2 * low.size
        halves, sizes, far = (a + b for a, b in zip(first, second, strict=True))
        doubt = abs(halves - value)
        whole = done.size + float(numpy.where(numpy.isfinite(sizes), sizes, 0.0).sum())
        # a node at a pole, without a number: halved as well
        open_ = ~(doubt <= _AGREED * whole) & (middle - low > 8 * numpy.spacing(abs(low)))
        if spent * _COUNT > _MOST or open_.sum() > _PANELS:
            open_[:] = False
        end = ~open_
        if not numpy.isfinite(doubt[end]).all():
            raise Unseen(NOT_SEEN)
        outside = float(far[end].sum())
        if outside > ENOUGH * whole:
            raise Unseen(f"lies further out than {RADIUS} standard deviations")
        error = float(doubt[end].sum()) + outside + ROUNDING * float(sizes[end].sum())
        done += Mean(float(halves[end].sum()), error, float(sizes[end].sum()))
        low, high = numpy.concatenate([low[open_], middle[open_]]), numpy.concatenate([middle[open_], high[open_]])
        value = numpy.concatenate([first[0][open_], second[0][open_]])
    raise Unseen(NOT_SEEN)


def _rule(line: Line, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """(∫ f, ∫|f|, its part at the outermost nodes) of every panel."""
    if not low.size:
        return low, low, low
    nodes, weights = panels(numpy.stack([low, high], axis=-1), legendre(_COUNT))
    f = line(nodes.ravel()).reshape(nodes[:, 0].shape) * weights[:, 0]
    far = numpy.where(abs(nodes[:, 0]) > _FAR * RADIUS, abs(f), 0.0)
    return f.sum(axis=-1), abs(f).sum(axis=-1), far.sum(axis=-1)
