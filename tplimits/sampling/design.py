"""How many draws at which width: the cheapest design that would find a wrong claim.

A claim off by `TOLERANCE` of its value (for a zero limit: by `ZERO_TOLERANCE` of the root mean square of what is
averaged) must be rejected with probability at least `POWER`.  With normal quantiles z that asks for a standard
error of the intercept of at most

    margin · tolerance / (z(1 − level/2m) + z(power)),

m the number of claims (Holm's first step is the strictest).  Given the variance s² of a draw and its cost c at
each width, the draws N minimise Σ c N under Var L(N) = [M(N)⁻¹]₁₁ ≤ target², M(N) = Σ (N/s²) x xᵀ + prior, which is
convex: at the optimum the gain (xᵀM⁻¹e₁)²/s² of a draw is proportional to its cost wherever N > 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import scipy

from tplimits.arrays import Array

if TYPE_CHECKING:
    from tplimits.sampling.estimate import SampleMoments, Series


#: a wrong claim that must be found: this far off, relative to its value ...
TOLERANCE = 0.02
#: ... or, for a zero limit, to the root mean square of what is averaged ...
ZERO_TOLERANCE = 0.05
#: ... with this probability
POWER = 0.95
#: the standard error asked for, relative to the one that suffices: pilots err
_MARGIN = 0.88
#: no width gets less than this share of the work, up to a mean as sharp as the intercept: lack of fit shows
_SHARE = 0.12
_ITERATIONS = 100
#: a design moves no more where a round of updates changes no number of draws by this part
_SETTLED = 1e-10
#: where a design gives up: this precision cannot be reached at these widths
_MOST = 1e12
#: a claimed value below this, relative to what is averaged, counts as zero
_ZERO = 1e-6


def tolerance(value: float, error: float, scale: float, size: float | None = None) -> float:
    """How far off a claim may be without being found, relative to `size` where one is given."""
    if size:
        return TOLERANCE * size
    if abs(value) <= max(3 * error, _ZERO * scale):
        return ZERO_TOLERANCE * scale
    return TOLERANCE * abs(value)


def quantiles(level: float, claims: int) -> float:
    """z(1 − level/2m) + z(power): how many standard errors apart a wrong claim must lie."""
    return -float(scipy.special.ndtri(level / (2 * claims)) + scipy.special.ndtri(1 - POWER))


@dataclass(frozen=True)
class Demand:
    """What one claim asks of the draws: moments from a pilot, and the standard error to reach."""

    moments: SampleMoments
    series: Series
    target: float

    @property
    def rows(self) -> Array:
        """The fit's equations, one a width: the series, and its random effects as more unknowns."""
        widths = self.moments.widths
        reach = self.moments.reach(self.series.radius)
        return numpy.column_stack([self.series.design(widths), self.series.curvature(widths, reach)])

    def variance(self, draws: Array) -> tuple[float, Array]:
        """Var L by so many draws at each width, and the gain of one more at each."""
        return _variance(self.rows, self.moments.law, draws, self.series.further)


def demand(
    moments: SampleMoments,
    series: Series,
    value: float,
    error: float,
    level: float,
    claims: int,
    size: float | None = None,
) -> Demand:
    """The demand of one of `claims` claims."""
    # the intercept is judged with both errors in quadrature, so only what the error of the claim leaves is for the
    # draws
    wanted = _MARGIN * tolerance(value, error, moments.scale, size) / quantiles(level, claims)
    left = wanted**2 - error**2
    # no draws help against the error of the claim itself: stay comparable with it
    return Demand(moments, series, math.sqrt(left) if left > 0.04 * wanted**2 else max(wanted, error))


def allocate(demands: Sequence[Demand], costs: Sequence[float]) -> tuple[int, ...]:
    """Draws at each width that meet every demand; `costs` is the work of one draw at each width."""
    cost = numpy.asarray(costs, dtype=numpy.float64)
    wanted = numpy.ones(len(cost))
    # a design that meets a hard demand mostly meets the easy ones too, which then cost no iterations
    for d in sorted(demands, key=lambda d: d.target**2 / d.moments.law.max()):  # the hardest first
        if d.variance(wanted)[0] > d.target**2:
            wanted = numpy.maximum(wanted, _cheapest(d, cost))
    sharp = numpy.stack([d.moments.law / d.target**2 for d in demands]).max(axis=0)
    # the optimum may leave a width with one draw; its residual would then say nothing against the form of the series
    floor = numpy.minimum(_SHARE * float(wanted @ cost) / cost, sharp)
    return tuple(int(n) for n in numpy.ceil(numpy.maximum(wanted, floor)))


def _cheapest(demand: Demand, cost: Array) -> Array:
    """Multiplicative updates towards gains in proportion to costs, each followed by a step to the target."""
    variances, target = demand.moments.law, demand.target**2
    # as if each width alone had to meet the target: of the right size whatever the units of the variances
    draws = numpy.maximum(variances / target, 1.0)
    for _ in range(_ITERATIONS):
        before = numpy.maximum(draws, 1.0)
        _, gain = demand.variance(draws)
        shape = draws * numpy.sqrt(gain / cost)
        draws = shape * float(draws @ cost) / float(shape @ cost)  # a cheaper design of the same work ...
        reached, _ = demand.variance(draws)
        draws = numpy.clip(draws * reached / target, 1e-9, _MOST)  # ... and the work that meets the target
        if (numpy.abs(numpy.maximum(draws, 1.0) - before) <= _SETTLED * before).all():
            break
    return numpy.maximum(draws, 1.0)


def _variance(rows: Array, variances: Array, draws: Array, unknown: int) -> tuple[float, Array]:
    """Var L and the gain of one more draw at each width."""
    # a width without draws would be a row of zeros, and its gain still has to be known
    draws = numpy.maximum(draws, 1e-12 * draws.max())
    whitened = rows * numpy.sqrt(draws / variances)[:, None]
    information = whitened.T @ whitened
    # random effects of the further terms have unit variance in units of τ n^(−p)
    information[-unknown:, -unknown:] += numpy.eye(unknown)
    # columns differ by powers of n: unscaled, the cut of pinv would take the small ones for zero
    size = 1 / numpy.sqrt(numpy.diag(information))
    inverse = numpy.linalg.pinv(information * numpy.outer(size, size), hermitian=True) * numpy.outer(size, size)
    return float(inverse[0, 0]), (rows @ inverse[0]) ** 2 / variances
