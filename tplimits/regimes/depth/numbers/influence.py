"""Statistics of a sample as means: values of influence, whose mean is the statistic and whose spread is its error.

A smooth statistic S of independent draws x_i is S + (1/N) Σ ψ(x_i) up to O(1/N), ψ its influence function, so that the
standard deviation of the values S + ψ(x_i), over √N, is the standard error of S:

    standard deviation s    ψ(x) = ((x − mean)² − s²)/2s
    correlation r           ψ(x, y) = z_x z_y − r (z_x² + z_y²)/2, z standardised
    quantile Q of level q   ψ(x) = (q − 1[x ≤ Q])/f(Q)

1/f(Q) is the slope of the quantile function, taken between order statistics h to either side of q with the h of
Bofinger, which makes the mean square error of this slope smallest for a normal law.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.given import real_array

#: the levels of quantiles that are told and judged, and what claims call them
QUANTILES = (0.05, 0.5, 0.95)
LEVELS = tuple(f"{100 * q:.0f}%" for q in QUANTILES)


def of_deviation(x: Array) -> Array:
    """Values with the standard deviation of x (draws, …) as their mean; zeros where x does not vary."""
    square = (x - x.mean(axis=0)) ** 2
    s = numpy.sqrt(square.sum(axis=0) / (len(x) - 1))
    moved = (square - square.mean(axis=0)) / numpy.where(s > 0, 2 * s, 1.0)
    return numpy.asarray(numpy.where(s > 0, s + moved, 0.0))


def of_correlation(x: Array, y: Array) -> Array:
    """Values with the correlation of x and y (draws,) as their mean; zeros where one of them does not vary."""
    spread = float(x.std() * y.std())
    if not spread > 0:
        return numpy.zeros(len(x))
    one, two = ((v - v.mean()) / v.std() for v in (x, y))
    r = float((one * two).mean())
    return numpy.asarray(r + one * two - r * (one**2 + two**2) / 2)


def levels(q: Any) -> Array:
    """Levels of quantiles; EvaluationError where there is none, or one is not from 0 to 1."""
    found = real_array("q", q, finite=False)
    if not found.size or not ((found >= 0) & (found <= 1)).all():
        raise EvaluationError(f"quantile({shown(q)}): a quantile lies between 0 and 1.")
    return found


def of_quantile(x: Array, q: float) -> Array:
    """Values with the quantile of level q of x (draws, …) as their mean."""
    found = numpy.quantile(x, q, axis=0)
    h = bandwidth(q, len(x))
    low, high = max(q - h, 0.0), min(q + h, 1.0)
    if high == low:
        return numpy.broadcast_to(found, x.shape).copy()
    slope = (numpy.quantile(x, high, axis=0) - numpy.quantile(x, low, axis=0)) / (high - low)
    below = x <= found
    return numpy.asarray(found + (below.mean(axis=0) - below) * slope)


def bandwidth(q: float, draws: int) -> float:
    """Bofinger's h = (4.5 φ(z)⁴/(2z² + 1)²)^(1/5) N^(−1/5), z the normal quantile of level q."""
    if not 0 < q < 1:
        return 0.0
    normal = NormalDist()
    z = normal.inv_cdf(q)
    return float((4.5 * normal.pdf(z) ** 4 / (2 * z * z + 1) ** 2 / draws) ** 0.2)
