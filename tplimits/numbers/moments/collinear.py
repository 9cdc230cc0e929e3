"""E f(g) h(g') by two nested integrals, for pairs whose expansion has not settled: |ρ| near one, large variances.

    E f(g) h(g') = E_z[f(√c11 z) h̄(c12 z/√c11)],   h̄(m) = E_e h(m + s e),   s² = det/c11

The inner mean is cut at the kinks of h, where they stand for each outer node; the outer integral is cut at the kinks of
f and graded towards those of h, near which h̄ varies on the scale s.
"""

from __future__ import annotations

import math

import numpy

from tplimits.arrays import Array
from tplimits.numbers.moments.kinks import UNSEEN, Kinked
from tplimits.numbers.moments.panels import nodes_between, scale_edges, with_kinks
from tplimits.program.nodes.rules import REACH, density, hermite

_INNER = 9.0
_SMOOTH = 0.25
_ROUNDING = 1e-14
#: nodes of an outer panel, most halvings of panels towards a kink, values of the inner function that are too many
_COUNT, _LEVELS, _MOST = 16, 60, 1e9


def nested(f: Kinked, h: Kinked, c11: float, c12: float, c22: float, det: float) -> tuple[float, float]:
    """(value, error), the error the difference of two resolutions and the rounding."""
    # the wider variable outside: the inner spread s is then the smaller one
    if c11 < c22 or (c11 == c22 and len(f.kinks) > len(h.kinks)):
        f, h, c11, c22 = h, f, c22, c11
    if c11 == 0:
        zero = numpy.zeros(1)
        return float(f(zero)[0] * h(zero)[0]), 0.0
    if len(f.cuts) + _LEVELS * len(h.kinks) > _MOST / (_COUNT**2 * (1 + len(h.near))):
        return 0.0, math.inf  # too many places where something changes on its own scale, between too many others
    fine, size, unseen = _outer(f, h, c11, c12, c22, det, _COUNT, 24)
    coarse, *_ = _outer(f, h, c11, c12, c22, det, 12, 18)
    return fine, abs(fine - coarse) + _ROUNDING * size + UNSEEN * unseen


def _outer(
    f: Kinked, h: Kinked, c11: float, c12: float, c22: float, det: float, count: int, inner: int
) -> tuple[float, float, float]:
    """(value, mean of absolute values, what of it panels hold that end where a function is infinite)."""
    deviation, slope, s = math.sqrt(c11), c12 / math.sqrt(c11), math.sqrt(det / c11)
    parts = [scale_edges(deviation), with_kinks(numpy.zeros(0), f.cuts, numpy.array([deviation]))[0]]
    if s == 0:
        parts.append(numpy.array(h.cuts) / slope)
    width = s / abs(slope) if slope else math.inf
    for kink in h.kinks:
        centre = kink / slope if slope else math.inf
        if abs(centre) < REACH:
            # panels halve towards the kink down to the width on which the smoothed function varies
            levels = max(0, min(_LEVELS, math.ceil(math.log2(1 / width)))) if width > 0 else 0
            reach = 0.5 ** numpy.arange(1, levels + 3)
            parts += [centre - reach, centre + reach, numpy.array([centre])]
    edges = numpy.unique(numpy.clip(numpy.concatenate(parts), -REACH, REACH))
    z, w = nodes_between(edges, count)
    weighted = f(deviation * z) * density(z) * w
    values = weighted * _smoothed(h, slope * z, s, inner)
    sizes = abs(values).reshape(-1, count).sum(axis=1)
    infinite = numpy.isin(edges, [*(t / deviation for t in f.infinite), *(t / slope for t in h.infinite if s == 0)])
    return float(values.sum()), float(sizes.sum()), float(sizes[infinite[1:] | infinite[:-1]].sum())


def _smoothed(h: Kinked, means: Array, s: float, count: int) -> Array:
    """E h(m + s e) for every mean m."""
    if s == 0:
        return h(means)
    # a smooth h over a narrow law: Gauss–Hermite, without panels
    if s <= _SMOOTH and not h.kinks:
        e, w = hermite(count)
        return h(means[:, None] + s * e) @ w
    edges = numpy.arange(-_INNER, _INNER + 1, 1.0 if count > 20 else 1.5)
    found = numpy.empty(len(means))
    block = 512
    for start in range(0, len(means), block):
        m = means[start : start + block]
        parts = [numpy.broadcast_to(edges, (len(m), len(edges)))]
        if s > _SMOOTH:  # panels on the scale of h itself
            own = scale_edges(max(s, 1.0)) * max(s, 1.0)
            parts.append(numpy.clip((own[None, :] - m[:, None]) / s, -_INNER, _INNER))
        if h.kinks:
            parts.append(numpy.clip((numpy.array(h.near)[None, :] - m[:, None]) / s, -_INNER, _INNER))
        cut = numpy.sort(numpy.concatenate(parts, axis=1), axis=1)
        e, w = nodes_between(cut, 12 if count > 20 else 10)
        values = h(m[:, None] + s * e)
        if h.undefined:  # at a node that rounding puts on the pole, in a panel of no length to speak of
            values = numpy.where(numpy.isfinite(values), values, 0.0)
        found[start : start + block] = (values * density(e) * w).sum(axis=1)
    return found
