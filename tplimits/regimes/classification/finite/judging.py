"""How sizes measured at several widths are judged beside a counted power of n.

log size is fitted by b log n + c.  The standard error s of b is the larger one of what the scatter of seeds, pooled
over widths, and what the distance of the means from the line tell.  Growth shows early and is hidden late, by norms and
functions that saturate; what is small at the start by chance becomes aligned: smallness shows late.  Powers are whole
multiples of a gap g, ½ as a rule, and with 2 standard errors something

    grows      if b − 2s > p + 0.3 g and b > p + 0.5 g, at any time;
    vanishes   if b + 2s < p − 0.8 g at the last time, p − 0.5 g for the output;

and with s > 0.5 g nothing is decided.  What is a sum of two powers, of which the larger is p, does not vanish.

A sum a n^p + b n^(p − ½) has no slope of its own on a line of logarithms: at widths that can be run the second term may
be the larger one, and a fit of one power lies between the two.  With p given it is linear in a and b: it is fitted by
weighted least squares, and a is judged beside its error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

#: a leading term counts beyond so many standard errors
ERRORS = 3.0


@dataclass(frozen=True)
class TwoPowers:
    """a n^p + b n^(p − gap): both terms at the largest width, the first one's error, and its part of the size."""

    leading: float
    second: float
    error: float
    share: float

    @property
    def leads(self) -> bool:
        """Whether there is a leading term for certain, which is most of the size at the largest width."""
        return self.leading > ERRORS * self.error and self.share > 0.5


def two_powers(
    widths: Sequence[int], sizes: Sequence[float], spread: float, power: float, gap: float = 0.5
) -> TwoPowers:
    """The fit of a n^power + b n^(power − gap) to sizes whose logarithms have the standard error `spread`."""
    n, y = numpy.asarray(widths, dtype=float), numpy.asarray(sizes, dtype=float)
    # beside the smallest: squares of what has run away are no numbers any more
    unit = float(y.min())
    # errors of logarithms are relative ones; without scatter widths would be fitted exactly, and nothing judged
    certain = 1 / max(spread, 1e-3)
    weights = certain * (unit / y)
    # next to the largest width: powers may be hundreds in networks that run away
    m = n / n[-1]
    columns = numpy.stack([m**power, m ** (power - gap)], axis=1) * weights[:, None]
    scales = numpy.linalg.norm(columns, axis=0)
    inverse = numpy.linalg.pinv(columns / scales)
    target = numpy.full(len(y), certain)
    a, b = (inverse @ target) / scales
    residual = target - columns @ numpy.array([a, b])
    # the distance from the fit, where it says more than the scatter
    worse = max(1.0, float((residual**2).sum()) / max(len(n) - 2, 1))
    # of networks that have run away one width may outweigh all others, which tells no two terms apart
    told = numpy.linalg.matrix_rank(columns / scales) == 2
    error = math.sqrt(float((inverse[0] ** 2).sum()) * worse) / float(scales[0]) if told else math.inf
    return TwoPowers(float(a) * unit, float(b) * unit, error * unit, float(a * (unit / y[-1])))


#: in parts of the gap between powers
CERTAIN, GROWTH, SMALLNESS, SMALLNESS_OF_OUTPUT, UNDECIDED = 0.3, 0.5, 0.8, 0.5, 0.5
AGREES, GROWS, VANISHES, OPEN = "agrees", "grows", "vanishes", "undecided"


@dataclass(frozen=True)
class Power:
    """A measured power of n, its standard error, and the typical size at each width; −∞ for what is zero.

    spread: the standard error of the logarithm of a typical size.
    """

    power: float
    error: float
    sizes: tuple[float, ...]
    widths: tuple[int, ...] = ()
    spread: float = 0.0


@dataclass(frozen=True)
class Rule:
    """What a power is judged by: late (when smallness is judged), beside `least`; of the output; gaps; errors."""

    late: bool
    least: float | None = None
    output: bool = False
    gap: float = 0.5
    errors: float = 2.0


def measured_power(widths: Sequence[int], sizes: Sequence[Sequence[float]]) -> Power:
    """The power of n of sizes, given at each width for several networks."""
    if any(not min(many, default=0.0) > 0 or not math.isfinite(max(many)) for many in sizes):
        typical = tuple(float(numpy.mean(many)) if len(many) else 0.0 for many in sizes)
        return Power(math.inf if any(not math.isfinite(t) for t in typical) else -math.inf, 0.0, typical)
    logs = [numpy.log(numpy.asarray(many, dtype=float)) for many in sizes]
    x = numpy.log(numpy.asarray(widths, dtype=float))
    # centred, so that slope and level are uncorrelated
    x = x - x.mean()
    squares = float((x * x).sum())
    means = numpy.array([y.mean() for y in logs])
    b = float((x * means).sum()) / squares
    free = sum(len(y) - 1 for y in logs)
    pooled = sum(float(((y - y.mean()) ** 2).sum()) for y in logs) / free if free else 0.0
    # one variance of all widths: few networks at each tell it badly
    scatter = math.sqrt(sum(pooled / len(y) * xi**2 for y, xi in zip(logs, x, strict=True))) / squares
    residual = means - means.mean() - b * x
    line = math.sqrt(float((residual**2).sum()) / max(len(x) - 2, 1) / squares) if len(x) > 2 else 0.0
    spread = math.sqrt(pooled / min(map(len, logs)))
    typical = tuple(float(numpy.exp(m)) for m in means)
    return Power(b, max(scatter, line), typical, tuple(widths), spread)


def judged(found: Power, counted: Any, rule: Rule) -> str:
    """The verdict on a measured power: AGREES, GROWS, VANISHES, or OPEN."""
    p, doubt, gap = float(counted), rule.errors * found.error, rule.gap
    if found.power - doubt > p + CERTAIN * gap and found.power > p + GROWTH * gap:
        return GROWS
    least = p if rule.least is None else float(rule.least)
    if rule.late and found.power + doubt < least - (SMALLNESS_OF_OUTPUT if rule.output else SMALLNESS) * gap:
        return AGREES if _leads(found, least, gap) else VANISHES
    return OPEN if found.error > UNDECIDED * gap else AGREES


def is_certain(found: Power, counted: Any, rule: Rule) -> bool:
    """Whether the verdict would be the same without any error, and with twice the error."""
    verdicts = {judged(replace(found, error=f * found.error), counted, rule) for f in (0.0, 1.0, 2.0)}
    return len(verdicts - {OPEN}) <= 1 and (OPEN not in verdicts or not verdicts & {GROWS, VANISHES})


def _leads(found: Power, power: float, gap: float) -> bool:
    """Whether sizes are a sum of two powers, in which the counted one leads."""
    if len(found.widths) < 3 or not min(found.sizes) > 0:
        return False
    return two_powers(found.widths, found.sizes, found.spread, power, gap).leads
