"""The limit that finite widths point at: the intercept of L + b/n, with an honest standard error.

The mean of a quantity at width n has an expansion L + b₁ n^(−p₁) + ... + c n^(−p) + ...; the powers p₁ < ...
are fitted ((1,) in general, (1/2, 1) where odd powers of √n occur) and the next one, c n^(−p), is not known.
It enters as a random effect c ~ N(0, τ²) with τ = scale · ρ^p, ρ = `RADIUS`: the size of the next term of a
series that converges for n > ρ.  With few draws it is lost in the noise, with many it is in effect fitted,
so the standard error of the intercept never falls below what the unknown curvature allows.  Widths at which later
terms are larger than that show by the lack of fit, and the smallest ones are then left out.  A series that is known to
converge for larger n only has a larger ρ, and the terms after the next one are random effects, too.

For means m with noise variances v and V = diag(v) + τ² n^(−p) n^(−p)ᵀ the estimate is generalised least squares,

    L = aᵀm,  a = V⁻¹X (XᵀV⁻¹X)⁻¹ e₁,  X = (1, n^(−p₁), ...),

with weights from a power law v = A n^(−q)/draws through the sample variances s² (weights taken from each s²
itself would follow the noise of skewed data) and Var L = Σ a² s²/draws + τ² (aᵀ n^(−p))².  Degrees of freedom
are Welch and Satterthwaite's: (Σ a² s²/draws + ...)² / Σ (a² s²/draws)²/(draws − 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy
import scipy

from tplimits.arrays import Array

#: expansions in 1/n are taken to converge for n > RADIUS
RADIUS = 3.0
#: relative rounding error allowed to a computed mean
ROUNDING = 1e-10
#: rounding of quantities that vanish identically: programs start from entries of order 1
TINY = 1e-13


@dataclass(frozen=True)
class Series:
    """The powers of 1/n that are fitted, and how large the `further` ones may be, which are not."""

    powers: tuple[Fraction, ...] = (Fraction(1),)
    #: it is taken to converge for n > radius
    radius: float = RADIUS
    further: int = 1

    @property
    def step(self) -> Fraction:
        """The distance between powers of the expansion."""
        return self.powers[0]

    @property
    def parameters(self) -> int:
        """How many numbers are fitted; a check needs at least as many widths."""
        return 1 + len(self.powers)

    def design(self, widths: Sequence[int]) -> Array:
        """X, one row a width."""
        n = numpy.asarray(widths, dtype=numpy.float64)
        return numpy.stack([n**0, *(n ** -float(p) for p in self.powers)], axis=1)

    def curvature(self, widths: Sequence[int], scale: float) -> Array:
        """τ n^(−p) at each width, one column for each of the first powers that are not fitted."""
        powers = [float(self.powers[-1] + (1 + i) * self.step) for i in range(self.further)]
        return scale * (self.radius / numpy.asarray(widths, dtype=numpy.float64)[:, None]) ** numpy.array(powers)

    def __str__(self) -> str:
        letters = "bcdefghk"
        names = {Fraction(1, 2): "√n", Fraction(1): "n"}
        terms = [f"{x}/{names.get(p, f'n^({p})')}" for x, p in zip(letters, self.powers, strict=False)]
        return " + ".join(["L", *terms])


@dataclass(frozen=True)
class SampleMoments:
    """One quantity at each width: mean over draws and variance of a single draw."""

    widths: tuple[int, ...]
    draws: tuple[int, ...]
    means: Array
    variances: Array
    scale: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SampleMoments) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @property
    def _values(self) -> tuple[object, ...]:
        return self.widths, self.draws, tuple(self.means), tuple(self.variances), self.scale

    def beyond(self, first: int) -> SampleMoments:
        """The same without the first widths."""
        means, variances = self.means[first:], self.variances[first:]
        return SampleMoments(self.widths[first:], self.draws[first:], means, variances, self.scale)

    @property
    def rounding(self) -> float:
        """The error that a mean of doubles may have without any noise."""
        return max(ROUNDING * max(self.scale, float(numpy.abs(self.means).max())), TINY)

    def reach(self, radius: float) -> float:
        """The scale of the coefficients of the series: that of what is averaged, or what the means show.

        A quantity that vanishes like b/n averages entries that vanish too; its next term is still of order b/n².
        """
        seen = abs(float(self.means[0] - self.means[-1])) * self.widths[0] / radius
        return max(self.scale, seen)

    @property
    def noise(self) -> Array:
        """Variance of each mean, rounding included."""
        return self.variances / numpy.asarray(self.draws) + self.rounding**2

    @property
    def smooth_noise(self) -> Array:
        """The same from a power law in n through the variances."""
        return self.law / numpy.asarray(self.draws)

    @property
    def law(self) -> Array:
        """The variance of a single draw by a power law in n through those measured."""
        return power_law(self.widths, self.draws, self.variances + self.rounding**2)


def power_law(widths: Sequence[int], draws: Sequence[int], variances: Array) -> Array:
    """A n^(−q) through sample variances, by least squares in logarithms weighted by draws."""
    # a width at which all draws agree has variance zero and no logarithm
    tiny = max(float(variances.max()) * 1e-24, 1e-300)
    # the logarithm of a sample variance has a variance in proportion to 1/(draws − 1)
    logs, weights = numpy.log(numpy.maximum(variances, tiny)), numpy.sqrt(numpy.asarray(draws) - 1.0)
    rows = numpy.stack([numpy.ones(len(widths)), numpy.log(numpy.asarray(widths) / widths[0])], axis=1)
    (level, slope), *_ = numpy.linalg.lstsq(rows * weights[:, None], logs * weights, rcond=None)
    return numpy.exp(level + slope * rows[:, 1])


def mean_moments(widths: Sequence[int], values: Sequence[Array], scale: float) -> SampleMoments:
    """The moments of a scalar from its values, one array of draws a width."""
    return SampleMoments(
        tuple(widths),
        tuple(len(v) for v in values),
        numpy.array([v.mean() for v in values]),
        numpy.array([v.var(ddof=1) for v in values]),
        scale,
    )


def covariance_moments(
    widths: Sequence[int], first: Sequence[Array], second: Sequence[Array], scale: float
) -> SampleMoments:
    """The moments of a covariance over draws.

    A draw contributes N/(N−1) · (x − mean x)(y − mean y): the mean of these is the unbiased covariance, and
    their variance over N is its variance up to a relative 1/N, whatever the fourth moments are.
    """
    products = []
    for x, y in zip(first, second, strict=True):
        # the factor makes up for the means being those of the same draws
        products.append(len(x) / (len(x) - 1) * (x - x.mean()) * (y - y.mean()))
    return mean_moments(widths, products, scale)


def judged_as_variance(moments: SampleMoments, claimed: float) -> SampleMoments:
    """The moments of a variance with the noise that they have if it is what is claimed.

    Few draws without outliers have a small variance and, by the same token, a small error of it: a true claim of 1 was
    rejected at the level 1e-2 in 2 % of checks with 400 to 60 Gaussian draws, in 5 % with products of two.  The noise
    relative to the square of the variance, which is all but the same at all widths, is taken from all of them, and the
    square is that of the claim where the sample has a smaller one.
    """
    # without a positive square there is nothing that the noise could be relative to
    if not claimed > 0 or not (moments.means > 0).all():
        return moments
    relative = float(numpy.average(moments.variances / moments.means**2, weights=moments.draws))
    return replace(moments, variances=relative * numpy.maximum(claimed, moments.means) ** 2)


#: p-values below ten to this are given as this
_LEAST_POWER = -100.0


@dataclass(frozen=True)
class Fit:
    """The fitted intercept L, its standard error and degrees of freedom, and how well the form fits.

    `chi2` with `chi2_dof` degrees of freedom measures what the form leaves over (`lack` is its p-value).
    """

    intercept: float
    stderr: float
    dof: float
    slopes: tuple[float, ...]
    chi2: float
    chi2_dof: int
    lack: float

    def beside(self, error: float, degrees: float) -> Fit:
        """The same where all widths share one more error, known to so many degrees of freedom: the intercept has it.

        >>> Fit(1.0, 3.0, math.inf, (), 0.0, 0, 1.0).beside(4.0, 16).stderr
        5.0
        """
        if not error:
            return self
        own, other = self.stderr**2, error**2
        # Welch and Satterthwaite for a sum of two estimated variances; inf stands for one that is known
        dof = (own + other) ** 2 / (own**2 / self.dof + other**2 / degrees)
        return replace(self, stderr=math.sqrt(own + other), dof=dof)

    def two_sided(self, value: float, error: float, degrees: float = math.inf) -> tuple[float, float]:
        """z and the p-value of a claimed value with a standard error of its own, known to so many degrees of freedom.

        Both errors s₁, s₂ are estimates.  By Cochran and Cox z is judged by (s₁² t₁ + s₂² t₂)/(s₁² + s₂²), with t₁, t₂
        of Student's laws: true claims are rejected at most as often as the level says, unlike by one law for the sum.

        >>> fit = Fit(1.0, 0.1, math.inf, (), 0.0, 0, 1.0)
        >>> z, p = fit.two_sided(1.196, 0.0)
        >>> round(z, 2), round(p, 3)
        (-1.96, 0.05)
        >>> round(fit.two_sided(1.196, 0.3, degrees=3)[1], 3), round(fit.two_sided(1.196, 0.3)[1], 3)
        (0.575, 0.535)
        """
        total = math.hypot(self.stderr, error)
        z = (self.intercept - value) / total
        # one error: Student's law itself, without a search
        if not error or not abs(z) < math.inf:
            return z, float(2 * scipy.special.stdtr(self.dof, -abs(z)))
        laws = (((self.stderr / total) ** 2, self.dof), ((error / total) ** 2, degrees))

        # in the logarithm of p: p itself spans a hundred powers of ten
        def beyond(power: float) -> float:
            tail = 10.0**power / 2
            return sum(-share * float(scipy.special.stdtrit(dof, tail)) for share, dof in laws if share) - abs(z)

        if beyond(_LEAST_POWER) < 0:
            return z, 10.0**_LEAST_POWER
        return z, float(10 ** scipy.optimize.brentq(beyond, _LEAST_POWER, 0.0, xtol=1e-12))


def fit(moments: SampleMoments, series: Series, term: float = 0.0) -> Fit:
    """Fit the series to the means, its next term of scale `term` at least; the module's docstring has the formulas.

    The random effect is one more unknown c/τ whose prior N(0, 1) is one more equation, c/τ = 0 ± 1: ordinary
    least squares then gives the generalised estimate, also where noise is tiny against τ.
    """
    curvature = series.curvature(moments.widths, max(moments.reach(series.radius), term))
    x = numpy.column_stack([series.design(moments.widths), curvature])
    contrasts = _contrasts(x, numpy.sqrt(moments.smooth_noise), series.further)
    estimates = contrasts @ moments.means
    parts = contrasts[0] ** 2 * moments.noise
    # the unknown curvature has no sample behind it: it counts in the variance, and not in the degrees of freedom
    variance = float(parts.sum() + ((contrasts[0] @ curvature) ** 2).sum())
    shares = parts**2 / (numpy.asarray(moments.draws) - 1.0)
    residual = moments.means - x @ estimates
    # the last terms are the residuals of priors' equations, which is also why the unknowns take no degree of freedom
    chi2 = float((residual**2 / moments.noise).sum() + (estimates[series.parameters :] ** 2).sum())
    chi2_dof = len(moments.widths) - series.parameters
    return Fit(
        intercept=float(estimates[0]),
        stderr=math.sqrt(variance),
        dof=variance**2 / float(shares.sum()) if shares.sum() > 0 else math.inf,
        slopes=tuple(map(float, estimates[1 : series.parameters])),
        chi2=chi2,
        chi2_dof=chi2_dof,
        lack=float(scipy.special.chdtrc(chi2_dof, chi2)) if chi2_dof else 1.0,
    )


def fit_of_widest(moments: SampleMoments, series: Series, level: float) -> Fit:
    """The fit without the smallest widths, as few as let the series describe the others, by its lack of fit.

    That of all widths where none does: more of them have to be left than numbers are fitted, to tell.  What is left out
    tells how large the next term is, and the error of the intercept allows for one as large at the other widths.
    """
    whole = fit(moments, series)
    if whole.lack >= level:
        return whole
    for first in range(1, whole.chi2_dof):
        others, left_out = moments.beyond(first), moments.widths[:first]
        kept = fit(others, series)
        if kept.lack >= level:
            expected = series.design(left_out) @ numpy.array([kept.intercept, *kept.slopes])
            term = float((abs(moments.means[:first] - expected) / series.curvature(left_out, 1.0)[:, 0]).max())
            # whether the series does without the larger term has been seen
            return replace(fit(others, series, term), lack=kept.lack)
    return whole


def _contrasts(x: Array, errors: Array, unknown: int) -> Array:
    """The rows a of weighted least squares whose last so many unknowns are standardised: estimates = a @ means."""
    prior = numpy.eye(x.shape[1])[-unknown:]
    rows = numpy.concatenate([x / errors[:, None], prior])
    size = numpy.linalg.norm(rows, axis=0)
    # the last columns belong to the priors' equations, whose right-hand sides are zero
    return numpy.linalg.pinv(rows / size)[:, :-unknown] / size[:, None] / errors


def log_slope(widths: Sequence[int], sizes: Sequence[float]) -> float:
    """The least-squares slope of log size against log n; NaN where a size is zero."""
    if min(sizes) <= 0:
        return math.nan
    slope, _ = numpy.polyfit(numpy.log(widths), numpy.log(sizes), 1)
    return float(slope)
