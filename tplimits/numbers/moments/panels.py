"""Gauss–Legendre panels for functions of √c·z, z standard normal, for many variances c at once.

A function varies on its own scale in x = √c z and the Hermite polynomials on theirs in z; panels are cut where either
needs it.  Kinks are edges: at x = 0 those of all variances coincide, others move with the variance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.rules import REACH, density, legendre, panels

if TYPE_CHECKING:
    from tplimits.numbers.moments.kinks import Kinked

NODES = 16
_WIDTH = 0.5
_TOLERANCE = 1e-15
_ROUNDS = 12


def scale_edges(deviation: float) -> Array:
    """Edges in z: half deviations, and in x = deviation·z steps that grow with the distance from zero."""
    steps = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    while steps[-1] < REACH * deviation:
        steps.append(steps[-1] * 1.25)
    fine = numpy.array(steps[1:]) / deviation if deviation > 0 else numpy.zeros(0)
    # the function's own scale is finer than half deviations only near 0, unless the deviation is large
    fine = fine[(fine < 1.0)] if deviation <= 16 else fine[fine < REACH]
    coarse = numpy.arange(1, round(REACH / _WIDTH) + 1) * _WIDTH
    half = numpy.unique(numpy.concatenate([fine, coarse]))
    return numpy.concatenate([-half[::-1], [0.0], half])


def nodes_between(edges: Array, count: int = NODES) -> tuple[Array, Array]:
    """Legendre nodes and weights of all panels; edges (…, panels + 1), nodes (…, panels · count)."""
    nodes, weights = panels(edges, legendre(count))
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)


def with_kinks(edges: Array, kinks: tuple[float, ...], deviations: Array) -> Array:
    """Edges with the kinks of each deviation: (panels + 1,) becomes (len(deviations), panels + kinks + 1).

    A kink at 0 where 0 is an edge adds none: in a panel without length all nodes would be at the kink, which may be a
    pole that the other factor makes up for.
    """
    kinks = tuple(t for t in kinks if t != 0 or not (edges == 0).any())
    wide = numpy.broadcast_to(edges, (len(deviations), len(edges)))
    # at variance 0 every kink moves beyond the range and is clipped to its end
    moved = [t / numpy.maximum(deviations, 1e-300) for t in kinks]
    extra = numpy.clip(numpy.array(moved).T.reshape(len(deviations), -1), -REACH, REACH)
    return numpy.sort(numpy.concatenate([wide, extra], axis=1), axis=1)


def settled_edges(f: Kinked, low: float, high: float, order: int) -> tuple[Array, float]:
    """Edges that integrate f(√c z) times Hermite functions up to an order for deviations in [low, high].

    Panels whose halves disagree are halved; the second value is what is left of the disagreements, relative to the root
    of E f².
    """
    edges = scale_edges(high)
    # both ends of the octave have to settle, then what lies between does
    tries = numpy.unique([low, high])
    rate = math.sqrt(max(order, 1))
    for _ in range(_ROUNDS):
        doubt = numpy.zeros(len(edges) - 1)
        for deviation in tries:
            whole, scale = _panel_sums(f, edges, deviation, rate)
            middle = (edges[1:] + edges[:-1]) / 2
            halves, _ = _panel_sums(f, numpy.sort(numpy.concatenate([edges, middle])), deviation, rate)
            doubt = numpy.maximum(doubt, abs(whole - halves.reshape(-1, 2).sum(axis=1)) / scale)
        # roundings of panels add up at random, like the root of their number
        if doubt.sum() <= _TOLERANCE * math.sqrt(len(doubt)):
            break
        worst = doubt > _TOLERANCE / 4
        edges = numpy.sort(numpy.concatenate([edges, ((edges[1:] + edges[:-1]) / 2)[worst]]))
    return edges, float(doubt.sum())


def _panel_sums(f: Kinked, edges: Array, deviation: float, rate: float) -> tuple[Array, float]:
    """The integral of f(√c z) cos(rate z + 1) e^(−z²/4) over each panel, kinks cut inside, and √E f²."""
    cut = with_kinks(edges, f.cuts, numpy.array([deviation]))[0]
    z, w = nodes_between(cut)
    # cos(rate z + 1) stands for the fastest Hermite function, of about that frequency; + 1 so that no parity cancels
    values = f.weighed(deviation * z, w)
    if not numpy.isfinite(values).all():
        raise EvaluationError(f"`{f.function}` has no finite value at some {f.variable} within 14 standard deviations.")
    sums = (values * numpy.cos(rate * z + 1) * numpy.exp(-(z**2) / 4) * w).reshape(-1, NODES).sum(axis=1)
    place = numpy.clip(numpy.searchsorted(edges, (cut[1:] + cut[:-1]) / 2, side="right") - 1, 0, len(edges) - 2)
    total = numpy.zeros(len(edges) - 1)
    numpy.add.at(total, place, sums)
    square = float((values**2 * density(z) * w).sum())
    # a function that is 0 has no scale: doubts stay absolute
    return total, math.sqrt(square) or 1.0
