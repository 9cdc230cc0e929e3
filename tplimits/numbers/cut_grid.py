"""Nodes and weights for standard normal coordinates, cut where kinks cross them.

Along a smooth coordinate the trapezoidal rule is used (its error is exponentially small for
analytic integrands); a coordinate along which a kink moves is cut at the kink and each piece gets
Gauss-Legendre nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy

from tplimits.numbers.budget import TooManyAtOnce
from tplimits.numbers.cuts import Cutting, Planes
from tplimits.program.nodes.rules import density, legendre, panels

if TYPE_CHECKING:
    from tplimits.numbers.frame import Array

#: nodes per smooth coordinate and per piece of a cut one, by resolution level and dimension
SMOOTH = {
    1: (97, 193, 385, 769, 1537),
    2: (65, 97, 161, 321, 641),
    3: (41, 57, 81, 121, 161),
    4: (25, 33, 41),
    5: (15, 19, 23),
}
_PIECE = {
    1: (80, 128, 200, 320, 480),
    2: (28, 40, 56, 80, 112),
    3: (18, 26, 36, 44, 56),
    4: (12, 16, 20),
    5: (8, 10, 12),
}
RADIUS = {1: 12.0, 2: 11.0, 3: 9.0, 4: 8.0, 5: 7.0}
#: more nodes than this are refused: the particles are cheaper
MAX_NODES = 8_000_000
MAX_DIMENSION = 5
#: a weight below rounding of the whole
_LEAST = 1e-19
#: the smallest distance from a cut at zero; its square is not zero
_TINY = 1e-60
#: the golden section: no multiple of it is nearly whole
_SHIFT = 0.3819660112501051
#: the share of its nodes by which a piece has fewer in a shifted rule of more coordinates than these, in which two
#: resolutions tell the error
_FEWER, _TOLD_BY_LEVELS = 7, 2
#: rules of no more nodes are kept for the next integral
_KEPT = 1_000_000


@lru_cache(maxsize=16)
def _graded(count: int) -> tuple[Array, Array]:
    """Legendre nodes crowded towards both ends, where a root or a logarithm may stand at a kink."""
    x, w = legendre(count)
    place, speed = grading((1 + x) / 2)
    return 2 * place - 1, w * speed


def grading(s: Array) -> tuple[Array, Array]:
    """φ(s) on [0, 1] with φ' = 30 s²(1 − s)², and φ': an integrand like |x|^(1/2) becomes smooth in s."""
    square = s * s
    return s * square * (10 - 15 * s + 6 * square), 30 * square * (1 - s) ** 2


def grid(
    cutting: Cutting,
    level: int,
    outer: int = 1,
    dimension: int | None = None,
    doubled: tuple[int, ...] = (),
    least: float = _LEAST,
    shifted: bool = False,
) -> tuple[Array, Array]:
    """Nodes (outer, count, rank) and weights (outer, count) for standard normal u, cut at the kinks.

    `doubled`: how often the resolution of each coordinate is doubled; nodes of less than the `least` weight are left
    out.  `shifted` along smooth coordinates by a part of their distance: sin(50 u)², a wave of a period that is
    as good as a multiple of the distance, is the same at all nodes, and at those of twice as many.  Pieces of three
    and more coordinates, which have no distance, have fewer nodes instead.
    """
    dimension = max(1, min(dimension or cutting.rank, MAX_DIMENSION))
    if any(doubled):
        return _cut(cutting, level, outer, dimension, doubled, least)
    if not cutting.planes.slopes and not cutting.curved:
        # a rule without cuts is the same for all integrands of its rank
        few = SMOOTH[dimension][level] ** cutting.rank <= _KEPT
        nodes, weights = (_plain if few else _plain.__wrapped__)(cutting.rank, level, dimension, least, shifted)
        return (nodes, weights) if outer == 1 else _repeated(nodes, weights, outer)
    return _cut(cutting, level, outer, dimension, (), least, shifted)


@lru_cache(maxsize=8)
def _plain(rank: int, level: int, dimension: int, least: float, shifted: bool) -> tuple[Array, Array]:
    return _cut(Cutting(Planes((), ()), rank, RADIUS[dimension]), level, 1, dimension, (), least, shifted)


def _repeated(nodes: Array, weights: Array, outer: int) -> tuple[Array, Array]:
    _affordable(weights.size * outer, nodes.shape[-1])
    return numpy.broadcast_to(nodes, (outer, *nodes.shape[1:])), numpy.broadcast_to(weights, (outer, weights.size))


def _cut(
    cutting: Cutting,
    level: int,
    outer: int,
    dimension: int,
    doubled: tuple[int, ...] = (),
    least: float = _LEAST,
    shifted: bool = False,
) -> tuple[Array, Array]:
    """The product rule of one resolution, coordinate by coordinate."""
    radius = cutting.radius
    nodes, weights = numpy.zeros((outer, 1, 0)), numpy.ones((outer, 1))
    for k in range(cutting.rank):
        finer = 1 << doubled[k] if doubled else 1
        smooth, piece = (SMOOTH[dimension][level] - 1) * finer + 1, _PIECE[dimension][level] * finer
        if shifted and cutting.rank > _TOLD_BY_LEVELS:
            piece -= max(1, piece // _FEWER)
        edges = cutting.edges(k, nodes)
        pieces = edges.shape[-1] - 1
        _affordable(weights.size * (smooth if pieces == 1 else pieces * piece), cutting.rank)
        if pieces == 1:
            # the step as a quotient: a difference of two nodes is off by a hundred roundings
            line, step = numpy.linspace(-radius, radius, smooth, retstep=True)
            line = line[:-1] + _SHIFT * step if shifted else line
            u = numpy.broadcast_to(line, (*nodes.shape[:2], line.size))
            w = numpy.full(line.size, step)
        else:
            # where a cut bends or ends the inner integral has a root at it; in one dimension grading costs nothing
            rule = _graded if cutting.bent(k, outer) or dimension == 1 else legendre
            u, w = _between(edges, rule(piece), cutting.scale(k, nodes))
        w = w * density(u)
        wide = numpy.broadcast_to(nodes[:, :, None, :], (*u.shape, k))
        nodes = numpy.concatenate([wide, u[..., None]], axis=-1).reshape(outer, -1, k + 1)
        weights = (weights[:, :, None] * w).reshape(outer, -1)
        if outer == 1 and cutting.rank > 1:
            # in many dimensions most nodes are such
            keep = weights[0] > least
            nodes, weights = nodes[:, keep], weights[:, keep]
    return nodes, weights


def _affordable(count: int, rank: int) -> None:
    if count > MAX_NODES:
        raise TooManyAtOnce(f"{count} quadrature nodes in {rank} dimensions are too many; use method='particles'.")


def _between(edges: Array, rule: tuple[Array, Array], scale: Array) -> tuple[Array, Array]:
    """Nodes and weights on the pieces between edges (outer, count, pieces + 1), sums of terms of this scale."""
    nodes, weights = panels(edges, rule)
    u = off_the_edges(nodes, edges[..., :-1, None], edges[..., 1:, None], scale[..., None, None])
    return u.reshape(*edges.shape[:2], -1), weights.reshape(*edges.shape[:2], -1)


def off_the_edges(u: Array, low: Array, high: Array, scale: Array) -> Array:
    """Nodes kept some units of rounding away from the ends of their piece, where a logarithm may stand."""
    first, last = (4 * numpy.spacing(numpy.maximum(abs(end), scale)) + _TINY for end in (low, high))
    return numpy.clip(u, low + first, high - last)
