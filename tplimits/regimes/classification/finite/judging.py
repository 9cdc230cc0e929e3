"""How sizes measured at several widths are judged beside a counted power of n.

log size is fitted by b log n + c.  The standard error of b is the larger one of what the scatter of seeds, pooled over
widths, and what the distance of the means from the line tell.  Growth shows early and is hidden late, by norms and
functions that saturate; what is small at the start by chance becomes aligned: smallness shows late.  So something

    grows      if b − 2s > p + 0.15 and b > p + 0.25, at any time;
    vanishes   if b + 2s < p − 0.4 at the last time, p − 0.25 for the output;

and with s > 0.25 nothing is decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

CERTAIN, GROWTH, SMALLNESS, SMALLNESS_OF_OUTPUT, UNDECIDED = 0.15, 0.25, 0.4, 0.25, 0.25
AGREES, GROWS, VANISHES, OPEN = "agrees", "grows", "vanishes", "undecided"


@dataclass(frozen=True)
class Power:
    """A measured power of n, its standard error, and the typical size at each width; −∞ for what is zero."""

    power: float
    error: float
    sizes: tuple[float, ...]


def measured_power(widths: Sequence[int], sizes: Sequence[Sequence[float]]) -> Power:
    """The power of n of sizes, given at each width for several networks.

    >>> found = measured_power((64, 128, 256), [[8.1, 7.9], [11.4, 11.2], [15.9, 16.1]])
    >>> round(found.power, 2), found.error < 0.03
    (0.5, True)
    """
    if any(not min(many, default=0.0) > 0 or not math.isfinite(max(many)) for many in sizes):
        typical = tuple(float(numpy.mean(many)) for many in sizes)
        return Power(math.inf if any(not math.isfinite(t) for t in typical) else -math.inf, 0.0, typical)
    logs = [numpy.log(numpy.asarray(many, dtype=float)) for many in sizes]
    x = numpy.log(numpy.asarray(widths, dtype=float))
    x = x - x.mean()
    squares = float((x * x).sum())
    means = numpy.array([y.mean() for y in logs])
    b = float((x * means).sum()) / squares
    free = sum(len(y) - 1 for y in logs)
    pooled = sum(float(((y - y.mean()) ** 2).sum()) for y in logs) / free if free else 0.0
    scatter = math.sqrt(sum(pooled / len(y) * xi**2 for y, xi in zip(logs, x, strict=True))) / squares
    residual = means - means.mean() - b * x
    line = math.sqrt(float((residual**2).sum()) / max(len(x) - 2, 1) / squares)
    return Power(b, max(scatter, line), tuple(float(numpy.exp(m)) for m in means))


def judged(found: Power, counted: Any, late: bool, least: Any = None, output: bool = False) -> str:
    """The verdict on a measured power: AGREES, GROWS, VANISHES, or OPEN; smallness is judged late, beside `least`.

    >>> judged(Power(0.5, 0.02, ()), 0, late=False), judged(Power(-0.6, 0.02, ()), 0, late=True)
    ('grows', 'vanishes')
    """
    p = float(counted)
    if found.power - 2 * found.error > p + CERTAIN and found.power > p + GROWTH:
        return GROWS
    below = p if least is None else float(least)
    if late and found.power + 2 * found.error < below - (SMALLNESS_OF_OUTPUT if output else SMALLNESS):
        return VANISHES
    return OPEN if found.error > UNDECIDED else AGREES
