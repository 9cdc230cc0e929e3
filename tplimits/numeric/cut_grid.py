"""Nodes and weights for standard normal coordinates, cut where kinks cross them.

Along a smooth coordinate the trapezoidal rule is used (its error is exponentially small for
analytic integrands); a coordinate along which a kink moves is cut at the kink and each piece gets
Gauss-Legendre nodes.  Cuts of a later coordinate depend on the earlier ones, so kinks oblique to the
axes are met exactly; where two such cuts cross, the earlier coordinate is cut as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError

Array = NDArray[numpy.float64]

#: nodes per smooth coordinate and per piece of a cut one, by resolution level and dimension
SMOOTH = {1: (97, 193, 385, 769, 1537), 2: (65, 97, 161, 321, 641), 3: (41, 57, 81), 4: (25, 33, 41), 5: (15, 19, 23)}
_PIECE = {1: (80, 128, 200, 320, 480), 2: (28, 40, 56, 80, 112), 3: (18, 26, 36), 4: (12, 16, 20), 5: (8, 10, 12)}
RADIUS = {1: 12.0, 2: 11.0, 3: 9.0, 4: 8.0, 5: 7.0}
#: more nodes than this are refused: the particles are cheaper
MAX_NODES = 8_000_000
MAX_DIMENSION = 5
#: directions of relative variance below this are taken as dependent
RANK_TOLERANCE = 1e-10
#: points scanned for the sign changes of a curved kink, and halvings of each bracket
_SCAN, _BISECTIONS = 161, 46


class TooManyNodes(EvaluationError):
    """The integral has too many dimensions or pieces for tensor quadrature."""


@dataclass(frozen=True)
class Frame:
    """Independent coordinates for correlated forms: values = constant + factor · u."""

    factor: Array  # (forms, rank)

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])


def independent_frame(covariance: Array) -> Frame:
    """A rank-revealing Cholesky factor, first forms first (kinked ones are put first by the caller)."""
    size = covariance.shape[0]
    rest, columns = covariance.copy(), []
    scale = max(float(numpy.max(numpy.diag(covariance), initial=0.0)), 1e-300)
    for j in range(size):
        if rest[j, j] > RANK_TOLERANCE * max(covariance[j, j], 1e-6 * scale):
            column = rest[:, j] / math.sqrt(rest[j, j])
            rest = rest - numpy.outer(column, column)
            columns.append(column)
        elif rest[j, j] < -1e-6 * scale:
            raise EvaluationError(
                f"a covariance of variance {rest[j, j]:.3g} < 0 met in a quadrature: not a Gram matrix."
            )
    return Frame(numpy.array(columns).T.reshape(size, len(columns)))


@lru_cache(maxsize=64)
def _legendre(count: int) -> tuple[Array, Array]:
    return numpy.polynomial.legendre.leggauss(count)


@lru_cache(maxsize=16)
def _graded(count: int) -> tuple[Array, Array]:
    """Legendre nodes crowded towards both ends, where a root or a logarithm may stand at a kink.

    x = φ(s) on [0, 1] with φ' = 30 s²(1 − s)²: an integrand like |x|^(1/2) becomes smooth in s.
    """
    x, w = _legendre(count)
    s = (1 + x) / 2
    return 2 * s**3 * (10 - 15 * s + 6 * s**2) - 1, w * 30 * s**2 * (1 - s) ** 2


@dataclass(frozen=True)
class Planes:
    """Kinks as hyperplanes slope·u + offset = 0; offsets are arrays over the outer nodes."""

    slopes: tuple[tuple[float, ...], ...]
    offsets: tuple[Any, ...]


def _levels(planes: Planes, rank: int) -> list[list[tuple[Array, Any]]]:
    """For each coordinate the planes that cut it, those of later coordinates projected down."""
    current = [(numpy.array(s), o) for s, o in zip(planes.slopes, planes.offsets, strict=True)]
    result: list[list[tuple[Array, Any]]] = [[] for _ in range(rank)]
    for k in reversed(range(rank)):
        here = [(s / s[k], o / s[k]) for s, o in current if abs(s[k]) > 1e-9 * max(numpy.max(abs(s)), 1e-300)]
        rest = [(s, o) for s, o in current if abs(s[k]) <= 1e-9 * max(numpy.max(abs(s)), 1e-300)]
        unique: list[tuple[Array, Any]] = []
        for s, o in here:
            if not any(numpy.allclose(s, t, atol=1e-10) and numpy.allclose(o, p, atol=1e-10) for t, p in unique):
                unique.append((s, o))
        result[k] = unique
        crossings = [(a[0] - b[0], a[1] - b[1]) for i, a in enumerate(unique) for b in unique[i + 1 :]]
        current = rest + [(s, o) for s, o in crossings if numpy.max(abs(s[:k]), initial=0.0) > 1e-9]
    return result


#: for one coordinate, where kinks cut it: (outer, count, cuts) as a function of the earlier coordinates
Cuts = Callable[[Array], Array]


def grid(
    planes: Planes,
    rank: int,
    level: int,
    outer: int = 1,
    dimension: int | None = None,
    curved: Mapping[int, Sequence[Cuts]] | None = None,
) -> tuple[Array, Array]:
    """Nodes (outer, count, rank) and weights (outer, count) for standard normal u, cut at the kinks.

    Straight kinks are `planes`; `curved` gives, for a coordinate, functions that find their cuts.
    """
    dimension = max(1, min(dimension or rank, MAX_DIMENSION))
    smooth, piece, radius = SMOOTH[dimension][level], _PIECE[dimension][level], RADIUS[dimension]
    levels = _levels(planes, rank)
    nodes, weights = numpy.zeros((outer, 1, 0)), numpy.ones((outer, 1))
    for k in range(rank):
        bent = [cut(nodes) for cut in (curved or {}).get(k, ())]
        if k == 0 and outer == 1:  # where a curved kink of the next coordinate begins or ends, this one is cut
            bent += [_turning_points(cut, radius) for cut in (curved or {}).get(1, ())]
        pieces = len(levels[k]) + sum(b.shape[-1] for b in bent)
        _affordable(weights.size * ((pieces + 1) * piece if pieces else smooth), rank)
        if pieces:
            rule = _graded if bent or dimension == 1 else _legendre
            u, w = _cut_nodes(nodes, levels[k], bent, k, rule(piece), radius)
        else:
            line = numpy.linspace(-radius, radius, smooth)
            u = numpy.broadcast_to(line, (*nodes.shape[:2], smooth))
            w = numpy.full(smooth, line[1] - line[0])
        w = w * numpy.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
        wide = numpy.broadcast_to(nodes[:, :, None, :], (*u.shape, k))
        nodes = numpy.concatenate([wide, u[..., None]], axis=-1).reshape(outer, -1, k + 1)
        weights = (weights[:, :, None] * w).reshape(outer, -1)
        if outer == 1 and rank > 1:
            keep = weights[0] > 1e-19
            nodes, weights = nodes[:, keep], weights[:, keep]
    return nodes, weights


def _affordable(count: int, rank: int) -> None:
    if count > MAX_NODES:
        raise TooManyNodes(f"{count} quadrature nodes in {rank} dimensions are too many; use method='particles'.")


def _cut_nodes(
    nodes: Array,
    cuts: list[tuple[Array, Any]],
    bent: Sequence[Array],
    k: int,
    rule: tuple[Array, Array],
    radius: float,
) -> tuple[Array, Array]:
    """Gauss-Legendre nodes on the pieces between the cuts of coordinate k, given the earlier ones."""
    places = [b[..., j] for b in bent for j in range(b.shape[-1])]
    for slope, offset in cuts:
        offset = numpy.asarray(offset, dtype=float).reshape(-1, 1)
        places.append(numpy.broadcast_to(-(nodes @ slope[:k]) - offset, nodes.shape[:2]))
    edges = numpy.sort(numpy.clip(numpy.stack(places, axis=-1), -radius, radius), axis=-1)
    ends = numpy.full((*edges.shape[:2], 1), radius)
    edges = numpy.concatenate([-ends, edges, ends], axis=-1)
    x, w = rule
    half = (edges[..., 1:] - edges[..., :-1])[..., None] / 2
    middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    u = (middle + half * x).reshape(*edges.shape[:2], -1)
    return u, (half * w).reshape(*edges.shape[:2], -1)


def _turning_points(cut: Cuts, radius: float) -> Array:
    """Values of the first coordinate at which the number of cuts of the second changes, (1, 1, count)."""

    def count(line: Array) -> NDArray[numpy.int64]:
        counted: NDArray[numpy.int64] = (cut(line.reshape(1, -1, 1))[0] < radius).sum(axis=-1)
        return counted

    line = numpy.linspace(-radius, radius, _SCAN)
    counts = count(line)
    at = numpy.flatnonzero(counts[1:] != counts[:-1])
    low, high, before = line[at], line[at + 1], counts[at]
    for _ in range(_BISECTIONS if len(at) else 0):
        middle = (low + high) / 2
        same = count(middle) == before
        low, high = numpy.where(same, middle, low), numpy.where(same, high, middle)
    return ((low + high) / 2).reshape(1, 1, -1)


def roots(function: Callable[[Array], Array], radius: float, most: int = 64) -> Array:
    """Sign changes on [−radius, radius] of functions evaluated at (..., points); padded with `radius`."""
    line = numpy.linspace(-radius, radius, _SCAN)
    values = function(line)
    change = (values[..., :-1] > 0) != (values[..., 1:] > 0)
    count = min(int(change.sum(axis=-1).max(initial=0)), most)
    found = numpy.full((*values.shape[:-1], count), radius)
    for j in range(count):
        first = numpy.argmax(change, axis=-1)
        present = numpy.take_along_axis(change, first[..., None], axis=-1)[..., 0]
        low, high = line[first], line[first + 1]
        sign = numpy.take_along_axis(values, first[..., None], axis=-1)[..., 0] > 0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            same = (function(middle[..., None])[..., 0] > 0) == sign
            low, high = numpy.where(same, middle, low), numpy.where(same, high, middle)
        found[..., j] = numpy.where(present, (low + high) / 2, radius)
        numpy.put_along_axis(change, first[..., None], False, axis=-1)
    return found
