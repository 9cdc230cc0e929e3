"""Claims judged together: one row each, at a family-wise level.

A claim is judged by the intercept of the series fitted over widths (`tplimits.sampling.estimate`), not by the
numbers at any one width: those differ from the limit by O(1/n).  Several claims are judged together by Holm's
procedure: with p-values p₁ ≤ ... ≤ p_m the adjusted ones are max over j ≤ i of min(1, (m − j + 1) p_j), and a
claim is rejected when its own is at most the level; if all claims are true, the probability to reject any is
at most the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import scipy

from tplimits.sampling.design import quantiles, tolerance
from tplimits.sampling.estimate import (
    Fit,
    SampleMoments,
    Series,
    covariance_moments,
    fit_of_widest,
    judged_as_variance,
    log_slope,
    mean_moments,
)

if TYPE_CHECKING:
    from tplimits.sampling.claims import Claim
    from tplimits.sampling.sample import Draws

#: a fit is no guide where widths stray as far from it with a probability below this (shared among the claims)
LACK = 1e-3
#: the slowest power of 1/n by which means are taken to approach a limit
SLOWEST = 0.25
#: averages smaller than this are rounding
_VANISHING = 1e-9


@dataclass(frozen=True)
class Row:
    """One claim and what finite widths say about it.

    `z` is (fitted intercept − claimed value) in standard errors, those of the claim included; `p` its two-sided
    probability and `p_holm` the same adjusted for all claims judged together.  `finds` is the smallest
    error of the claim that these draws would find with probability 95 %, `tolerance` the one they should.
    `slope` is that of log rms deviation from the claim against log n (−1/2 for averages); for a covariance
    that of the log standard deviation of the scalars (0).
    `accepted` is None where the claim is undecided: it is off the intercept, of a fit that the widths do not follow.
    """

    claim: Claim
    series: Series
    moments: SampleMoments
    fit: Fit
    z: float
    p: float
    p_holm: float
    slope: float
    finds: float
    tolerance: float
    accepted: bool | None

    @property
    def intercept(self) -> float:
        """The limit that finite widths point at."""
        return self.fit.intercept

    @property
    def stderr(self) -> float:
        """The standard error of the intercept."""
        return self.fit.stderr

    @property
    def b(self) -> float:
        """The coefficient of the first power of 1/n."""
        return self.fit.slopes[0]

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the fit: the smallest ones are left out where the series does not describe them."""
        return self.moments.widths[-(self.fit.chi2_dof + self.series.parameters) :]

    @property
    def lack_of_fit(self) -> float:
        """The probability of widths straying as far from the fitted series as they do."""
        return self.fit.lack


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values."""
    adjusted, largest = [0.0] * len(p), 0.0
    # `largest` keeps adjusted values in the order of p: a claim is rejected only if all with smaller p are
    for place, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - place) * p[i]))
        adjusted[i] = largest
    return adjusted


def moments_of(claim: Claim, columns: Mapping[str, int], samples: Sequence[Draws]) -> SampleMoments:
    """The moments at each width of what a claim is about; `columns` finds observables in the draws."""
    widths = tuple(s.n for s in samples)
    places = [columns[label] for label in claim.labels]
    # the largest width is nearest to the limit; for two scalars the geometric mean of both
    scale = math.sqrt(math.prod(float(samples[-1].squares[i]) ** (1 / len(places)) for i in places))
    scale = max(scale, _VANISHING)  # what is zero up to rounding at every width has no scale of its own
    if claim.statistic == "mean":
        return mean_moments(widths, [s.values[:, places[0]] for s in samples], scale)
    first, second = ([s.values[:, i] for s in samples] for i in places)
    # a covariance is a mean of products, and has the square of the scale
    found = covariance_moments(widths, first, second, scale**2)
    return judged_as_variance(found, claim.value) if places[0] == places[-1] else found


def beyond_misfit(moments: SampleMoments, claim: Claim, shared: float = 0.0) -> float:
    """The probability of a claim so far from the mean of the largest width, though it is a limit that means approach.

    Widths from n to N that approach a limit like n^(−q) have 1/((N/n)^q − 1) as far to go as they have moved.  Limits
    with corrections in powers of n^(−½) are approached twice as fast as the q that is allowed for.

    >>> from tplimits.sampling.claims import Claim
    >>> slow = SampleMoments((16, 256), (1000, 1000), numpy.array([0.5, 0.25]), numpy.array([1e-4, 1e-4]), 1.0)
    >>> beyond_misfit(slow, Claim("a", 0.0)), beyond_misfit(slow, Claim("a", -0.2)) < 1e-9
    (1.0, True)
    """
    means, noise = moments.means, moments.noise
    left = 1 / ((moments.widths[-1] / moments.widths[0]) ** SLOWEST - 1)
    gap = abs(claim.value - means[-1]) - left * (means.max() - means.min())
    # the noise of both ends of the range adds up at worst
    error = math.hypot((1 + left) * math.sqrt(noise[-1]), 2 * left * math.sqrt(noise.max()), claim.error, shared)
    degrees = min(min(moments.draws) - 1, claim.degrees)
    return min(1.0, 2 * float(scipy.special.stdtr(degrees, -gap / error)))


def slope(claim: Claim, columns: Mapping[str, int], samples: Sequence[Draws]) -> float:
    """The slope of log deviation against log n."""
    sizes = []
    for s in samples:
        values = s.values[:, columns[claim.label]]
        centre = claim.value if claim.statistic == "mean" else values.mean()
        sizes.append(float(numpy.sqrt(((values - centre) ** 2).mean())))
    return log_slope([s.n for s in samples], sizes)


def judge(
    claims: Sequence[Claim],
    series: Sequence[Series],
    columns: Mapping[str, int],
    samples: Sequence[Draws],
    level: float,
    shared: Sequence[tuple[float, float]] = (),
) -> tuple[Row, ...]:
    """One row a claim, judged together at a family-wise level.

    `shared` are errors that the means of all widths have in common, with their degrees of freedom, one a claim.  What a
    fit says that the widths do not follow is no evidence: such a claim is accepted or undecided, unless it is further
    off than any series of powers explains (`beyond_misfit`).
    """
    moments = [moments_of(claim, columns, samples) for claim in claims]
    lack = LACK / len(claims)
    fits = [fit_of_widest(m, s, lack) for m, s in zip(moments, series, strict=True)]
    fits = [f.beside(*e) for f, e in zip(fits, shared, strict=True)] if shared else fits
    scores = [f.two_sided(c.value, c.error, c.degrees) for f, c in zip(fits, claims, strict=True)]
    off = [p_holm <= level for p_holm in holm([p for _, p in scores])]
    errors = [e for e, _ in shared] if shared else [0.0] * len(claims)
    evidence = [
        p if f.lack >= lack else beyond_misfit(m, c, e)
        for (_, p), f, m, c, e in zip(scores, fits, moments, claims, errors, strict=True)
    ]
    adjusted = holm(evidence)
    apart = quantiles(level, len(claims))
    return tuple(
        Row(
            claim=claim,
            series=form,
            moments=m,
            fit=f,
            z=z,
            p=p,
            p_holm=p_holm,
            slope=slope(claim, columns, samples),
            finds=apart * math.hypot(f.stderr, claim.error),
            tolerance=tolerance(claim.value, claim.error, m.scale, claim.size),
            accepted=False if p_holm <= level else None if f.lack < lack and far else True,
        )
        for claim, form, m, f, (z, p), p_holm, far in zip(
            claims, series, moments, fits, scores, adjusted, off, strict=True
        )
    )
