"""Estimates on data whose answer is known: the intercept, its standard error, its coverage."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy
import pytest
import scipy.stats

from tplimits.sampling import estimate
from tplimits.sampling.estimate import (
    Fit,
    SampleMoments,
    Series,
    covariance_moments,
    fit,
    judged_as_variance,
    log_slope,
    mean_moments,
    power_law,
)

WIDTHS = (64, 128, 256, 512)
ROOTS = Series((Fraction(1, 2), Fraction(1)))


def synthetic(rng, draws, terms=(), widths=WIDTHS, skewed=False):
    """Draws at each width: mean 1 + Σ b n^(−p) over the terms (p, b), variance 1/n."""
    values = []
    for n, count in zip(widths, draws, strict=True):
        noise = rng.exponential(size=count) - 1 if skewed else rng.standard_normal(count)
        values.append(1 + sum(b * n**-p for p, b in terms) + noise / math.sqrt(n))
    return values


def within(count, trials, probability):
    """Whether a count is one that a binomial variable has with probability 1 − 1e-4 or more on both sides."""
    low, high = scipy.stats.binom.interval(1 - 1e-4, trials, probability)
    return low <= count <= high


def test_noise_free_means_give_the_intercept_and_the_slope():
    means = numpy.array([2 + 3 / n for n in WIDTHS])
    found = fit(SampleMoments(WIDTHS, (10,) * 4, means, numpy.zeros(4), 2.0), Series())
    assert found.intercept == pytest.approx(2, abs=1e-6) and found.slopes[0] == pytest.approx(3, abs=1e-3)
    assert found.stderr < 1e-3 and found.lack > 0.5


def test_odd_powers_of_the_root_are_fitted_when_asked():
    means = numpy.array([2 + 3 / math.sqrt(n) - 5 / n for n in WIDTHS])
    found = fit(SampleMoments(WIDTHS, (10,) * 4, means, numpy.zeros(4), 1.0), ROOTS)
    assert found.intercept == pytest.approx(2, abs=1e-6)
    assert found.slopes == pytest.approx((3, -5), abs=1e-3)
    assert str(ROOTS) == "L + b/√n + c/n" and str(Series()) == "L + b/n"


@pytest.mark.parametrize("skewed", [False, True], ids=["normal", "exponential"])
@pytest.mark.parametrize("draws", [(40, 40, 40, 40), (400, 60, 200, 40)], ids=["equal", "unequal"])
def test_the_interval_covers_the_true_intercept_and_a_wrong_one_is_found(seed, skewed, draws):
    rng, trials = numpy.random.default_rng(seed), 600
    misses = found = 0
    for _ in range(trials):
        result = fit(mean_moments(WIDTHS, synthetic(rng, draws, [(1, 0.7)], skewed=skewed), 0.0), Series())
        misses += result.two_sided(1.0, 0.0)[1] <= 0.05
        found += result.two_sided(1.0 + 5 * result.stderr, 0.0)[1] <= 0.01
    assert within(misses, trials, 0.05)
    assert found >= 0.95 * trials


def test_unknown_curvature_enters_the_standard_error(seed):
    """Means with a term 2/n² and little noise: without the allowance the true intercept is rejected."""
    rng, widths = numpy.random.default_rng(seed), (16, 32, 64, 128)
    values = synthetic(rng, (200_000,) * 4, [(1, 0.7), (2, 2.0)], widths)
    honest = fit(mean_moments(widths, values, 1.0), Series())
    ended = Series(radius=1e-9)  # a series that ends with its fitted term
    naive = fit(mean_moments(widths, values, 1.0), ended)
    assert honest.two_sided(1.0, 0.0)[1] > 1e-3
    assert naive.two_sided(1.0, 0.0)[1] < 1e-6


def test_few_draws_hide_the_curvature():
    moments = SampleMoments(WIDTHS, (100,) * 4, numpy.ones(4), 1 / numpy.array(WIDTHS), 1.0)
    plain = SampleMoments(WIDTHS, (100,) * 4, numpy.ones(4), 1 / numpy.array(WIDTHS), 0.0)
    assert fit(moments, Series()).stderr == pytest.approx(fit(plain, Series()).stderr, rel=0.02)


def test_lack_of_fit_shows_a_power_that_is_not_fitted(seed):
    rng = numpy.random.default_rng(seed)
    values = synthetic(rng, (100_000,) * 4, [(0.5, 1.0)])
    assert fit(mean_moments(WIDTHS, values, 0.1), Series()).lack < 1e-3
    assert fit(mean_moments(WIDTHS, values, 0.1), ROOTS).lack > 1e-3


def test_lack_of_fit_is_uniform_when_the_series_is_right(seed):
    rng, trials = numpy.random.default_rng(seed), 400
    lacks = [
        fit(mean_moments(WIDTHS, synthetic(rng, (60,) * 4, [(1, 0.7)]), 0.0), Series()).lack for _ in range(trials)
    ]
    assert within(sum(p < 0.1 for p in lacks), trials, 0.1)


def test_as_many_widths_as_parameters_leave_no_lack_of_fit():
    found = fit(SampleMoments((64, 256), (10, 10), numpy.array([1.1, 1.0]), numpy.array([0.1, 0.1]), 1.0), Series())
    assert found.chi2_dof == 0 and found.lack == 1.0


def test_covariances_are_unbiased_with_the_textbook_error(seed):
    """Normal x, y of correlation ρ: Var of the sample covariance is (1 + ρ²)/(N − 1)."""
    rng, ρ, draws, trials = numpy.random.default_rng(seed), 0.6, 200, 2000
    estimates, errors = [], []
    for _ in range(trials):
        x, z = rng.standard_normal((2, draws))
        y = ρ * x + math.sqrt(1 - ρ**2) * z
        moments = covariance_moments((64,), [x], [y], 1.0)
        assert moments.means[0] == pytest.approx(numpy.cov(x, y)[0, 1])
        estimates.append(moments.means[0])
        errors.append(moments.variances[0] / draws)
    exact = (1 + ρ**2) / (draws - 1)
    assert abs(numpy.mean(estimates) - ρ) < 4 * math.sqrt(exact / trials)
    assert numpy.mean(errors) == pytest.approx(exact, rel=0.05)
    assert numpy.var(estimates) == pytest.approx(exact, rel=0.15)


def test_the_error_of_the_claim_enters_in_quadrature():
    found = Fit(intercept=1.0, stderr=0.03, dof=math.inf, slopes=(), chi2=0.0, chi2_dof=0, lack=1.0)
    z, p = found.two_sided(1.1, 0.04)
    assert z == pytest.approx(-2.0) and p == pytest.approx(2 * scipy.stats.norm.sf(2))


def test_few_draws_are_judged_by_student():
    found = Fit(intercept=1.0, stderr=0.1, dof=7.0, slopes=(), chi2=0.0, chi2_dof=0, lack=1.0)
    assert found.two_sided(0.7, 0.0)[1] == pytest.approx(2 * scipy.stats.t.sf(3, 7))


def test_constants_are_compared_up_to_rounding():
    exact = SampleMoments(WIDTHS, (8,) * 4, numpy.full(4, 0.1), numpy.zeros(4), 0.0)
    assert fit(exact, Series()).two_sided(0.1, 0.0)[1] > 0.9
    assert fit(exact, Series()).two_sided(0.1001, 0.0)[1] < 1e-6
    nothing = SampleMoments(WIDTHS, (8,) * 4, numpy.zeros(4), numpy.zeros(4), 0.0)
    assert fit(nothing, Series()).two_sided(0.0, 0.0)[1] > 0.9


def test_power_law_smooths_variances():
    variances = 5 / numpy.array(WIDTHS) ** 1.5
    assert power_law(WIDTHS, (9,) * 4, variances) == pytest.approx(variances)
    assert numpy.isfinite(power_law(WIDTHS, (9,) * 4, numpy.array([1.0, 0.0, 0.5, 0.1]))).all()


def test_log_slope_of_a_vanishing_size_is_unknown():
    assert log_slope(WIDTHS, [n**-0.5 for n in WIDTHS]) == pytest.approx(-0.5)
    assert math.isnan(log_slope(WIDTHS, (1.0, 0.5, 0.0, 0.1)))


@pytest.mark.parametrize("draws", [(400, 200, 100, 60), (2000, 1000, 500, 250)])
def test_true_claims_of_a_variance_are_rejected_no_more_often_than_the_level_says(draws):
    """Of Gaussian scalars and of products of two, whose squares have outliers; a claim off by half is rejected."""
    rng, widths, form = numpy.random.default_rng(4), (64, 128, 256, 512), Series((Fraction(1),))
    for power in (1, 2):
        rejected = missed = 0
        for _ in range(600):
            x = [numpy.prod(rng.normal(size=(power, k)), axis=0) for k in draws]
            moments = covariance_moments(widths, x, x, 1.0)
            rejected += fit(judged_as_variance(moments, 1.0), form).two_sided(1.0, 0.0)[1] < 1e-2
            missed += fit(judged_as_variance(moments, 4.0), form).two_sided(4.0, 0.0)[1] > 1e-2
        assert rejected <= 15  # 6 expected; 16 has a probability of 5e-4
        assert missed <= (60 if power == 1 else 240)


def test_coefficients_may_be_as_large_as_the_means_show():
    """b/n with b = 64·2 changes by 2 from n = 64 on, however small the scale of what is averaged."""
    seen = SampleMoments((64, 128, 256), (100,) * 3, numpy.array([3.0, 1.5, 1.0]), numpy.ones(3), 1e-3)
    assert seen.reach(estimate.RADIUS) == pytest.approx(2 * 64 / estimate.RADIUS)
    assert SampleMoments((64, 128), (9, 9), numpy.zeros(2), numpy.ones(2), 0.7).reach(estimate.RADIUS) == 0.7


@pytest.mark.parametrize("form", [Series(), ROOTS], ids=str)
def test_the_fit_is_generalised_least_squares(form):
    """The formulas of the textbook: V = diag(v) + τ² n^(−p) n^(−p)ᵀ inverted as it stands, noise by a power law."""
    rng = numpy.random.default_rng(4)
    widths, draws = (40, 64, 128, 300, 512), (30, 60, 41, 70, 22)
    n = numpy.array(widths, float)
    means, variances = 1 + 3 / n + 0.01 * rng.standard_normal(5), rng.uniform(2, 4, 5) / n
    given = SampleMoments(widths, draws, means, variances, 0.8)
    found = fit(given, form)
    p = float(form.powers[-1] + form.step)
    reach = max(0.8, abs(means[0] - means[-1]) * 40 / 3)
    curved = reach * (3 / n) ** p
    x = numpy.stack([n**0, *(n ** -float(q) for q in form.powers)], axis=1)
    weights = numpy.sqrt(numpy.array(draws) - 1.0)
    line = numpy.polynomial.polynomial.polyfit(numpy.log(n), numpy.log(variances), 1, w=weights)
    smooth = numpy.exp(numpy.polynomial.polynomial.polyval(numpy.log(n), line)) / draws
    inverse = numpy.linalg.inv(numpy.diag(smooth) + numpy.outer(curved, curved))
    rows = numpy.linalg.solve(x.T @ inverse @ x, x.T @ inverse)
    assert (found.intercept, *found.slopes) == pytest.approx(tuple(rows @ means), rel=1e-6)
    noise = variances / draws
    parts = rows[0] ** 2 * noise
    whole = parts.sum() + (rows[0] @ curved) ** 2
    assert found.stderr == pytest.approx(math.sqrt(whole), rel=1e-6)
    assert found.dof == pytest.approx(whole**2 / (parts**2 / (numpy.array(draws) - 1)).sum(), rel=1e-6)
    residual = means - x @ rows @ means  # of which the curvature takes its share
    share = (curved @ (inverse @ residual)) * curved
    chi2 = ((residual - share) ** 2 / noise).sum() + (curved @ (inverse @ residual)) ** 2
    assert found.chi2 == pytest.approx(chi2, rel=1e-6)
    assert found.chi2_dof == 5 - len(x.T) and found.lack == pytest.approx(scipy.stats.chi2.sf(chi2, found.chi2_dof))
    assert given.law == pytest.approx(smooth * draws, rel=1e-9)
    assert given.reach(estimate.RADIUS) == pytest.approx(reach)
    assert form.curvature(widths, 2.0)[:, 0] == pytest.approx(2 * (3 / n) ** p)


def test_rounding_is_relative_to_what_is_averaged_and_never_nothing():
    small = SampleMoments((8, 16), (5, 5), numpy.array([1e-9, -3e-9]), numpy.zeros(2), 0.0)
    large = SampleMoments((8, 16), (5, 5), numpy.array([2.0, -3.0]), numpy.zeros(2), 7.0)
    assert (small.rounding, large.rounding) == (1e-13, pytest.approx(7e-10, rel=1e-9, abs=0))
    for found in (large.noise, large.law):
        assert found == pytest.approx([4.9e-19] * 2, rel=1e-6, abs=0)
    assert SampleMoments((8, 16), (5, 5), numpy.array([2.0, -30.0]), numpy.zeros(2), 7.0).rounding == pytest.approx(
        3e-9
    )


@pytest.mark.parametrize(("own", "other", "dof", "degrees"), [(0.1, 0.2, 5.0, 9.0), (0.3, 0.1, 40.0, 2.0)])
def test_two_estimated_errors_are_judged_by_cochran_and_cox(own, other, dof, degrees):
    """Judged by the mean of two quantiles of Student, weighted by the squares of the errors."""
    for level in (0.3, 0.02, 1e-6):
        shares = own**2 / (own**2 + other**2), other**2 / (own**2 + other**2)
        bound = sum(s * scipy.stats.t.isf(level / 2, d) for s, d in zip(shares, (dof, degrees), strict=True))
        claimed = 1.0 - bound * math.hypot(own, other)
        z, p = Fit(1.0, own, dof, (), 0.0, 0, 1.0).two_sided(claimed, other, degrees)
        assert (z, p) == (pytest.approx(bound), pytest.approx(level, rel=1e-6))
    assert Fit(1.0, 1e-9, 1e9, (), 0.0, 0, 1.0).two_sided(9.0, 1e-9)[1] == 1e-100


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [((3.0, 7.0), (3.0, 7.0), 14.0), ((3.0, 7.0), (1e-4, 2.0), 7.0), ((1e-4, 7.0), (5.0, 2.0), 2.0)],
)
def test_degrees_of_freedom_of_a_sum_of_two_errors(own, other, expected):
    """By Welch and Satterthwaite two alike have twice the degrees of one, and a large one has its own."""
    found = Fit(1.0, own[0], own[1], (), 0.0, 0, 1.0).beside(*other)
    assert found.dof == pytest.approx(expected, rel=1e-6)
    assert found.stderr == pytest.approx(math.hypot(own[0], other[0])) and found.intercept == 1.0


def test_degrees_of_freedom_of_a_sum_are_those_of_its_variance():
    """2 E²/Var of s₁² + s₂², of which each is σ² χ²_ν/ν."""
    rng, own, other = numpy.random.default_rng(0), (1.5, 5.0), (2.0, 12.0)
    total = sum(s**2 * rng.chisquare(nu, 400_000) / nu for s, nu in (own, other))
    found = Fit(1.0, *own, (), 0.0, 0, 1.0).beside(*other)
    assert found.dof == pytest.approx(2 * total.mean() ** 2 / total.var(), rel=0.02)
