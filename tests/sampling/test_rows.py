"""Claims judged together."""

from __future__ import annotations

import math

import numpy
import pytest

from tplimits.sampling.adaptive import doubtful
from tplimits.sampling.claims import Claim
from tplimits.sampling.design import quantiles
from tplimits.sampling.estimate import Series, fit
from tplimits.sampling.rows import holm, judge, moments_of
from tplimits.sampling.sample import Draws

WIDTHS = (64, 128, 256, 512)


def normal_draws(rng, means, count=400):
    """Draws of independent quantities with the given limits and variance 1/n."""
    samples = []
    for n in WIDTHS:
        values = numpy.array(means) + rng.standard_normal((count, len(means))) / math.sqrt(n)
        samples.append(Draws(n, values, numpy.ones(len(means))))
    return samples


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == [0.2] and holm([]) == []


@pytest.mark.long
def test_the_family_wise_level_holds_over_many_claims(seed):
    """20 true claims at level 0.1, 200 times: any is rejected about 10 % of the time, 1 − 0.9²⁰ = 88 % without Holm."""
    rng, labels, rejected = numpy.random.default_rng(seed), [f"θ{i}" for i in range(20)], 0
    claims, columns = [Claim(label, 0.0) for label in labels], {label: i for i, label in enumerate(labels)}
    for _ in range(200):
        rows = judge(claims, [Series()] * 20, columns, normal_draws(rng, [0.0] * 20, 60), 0.1)
        rejected += any(not row.accepted for row in rows)
    assert 5 <= rejected <= 38  # 200 draws of probability 0.1 leave these bounds with probability 2e-4


def strayed(rng, limits, off, count=4000):
    """The same with `off`, one a width, added to the first of the quantities."""
    samples = normal_draws(rng, limits, count)
    for sample, more in zip(samples, off, strict=True):
        sample.values[:, 0] += more
    return samples


def test_widths_that_the_series_does_not_describe_are_left_out(seed):
    """L + (64/n)^9: at the smallest width alone it is seen, and pulls the intercept of all of them off by 10 errors."""
    samples = strayed(numpy.random.default_rng(seed), [1.0], [(64 / n) ** 9 for n in WIDTHS])
    whole = fit(moments_of(Claim("a", 1.0), {"a": 0}, samples), Series())
    assert abs(whole.intercept - 1) > 10 * whole.stderr and whole.lack < 1e-9
    (row,) = judge([Claim("a", 1.0)], [Series()], {"a": 0}, samples, 1e-4)
    assert row.accepted and row.widths == WIDTHS[1:] and row.lack_of_fit > 1e-3
    (wrong,) = judge([Claim("a", 1.02)], [Series()], {"a": 0}, samples, 1e-4)
    assert wrong.accepted is False and wrong.z < -5


def test_no_width_that_follows_the_series_decides_nothing(seed):
    samples = strayed(numpy.random.default_rng(seed), [1.0, 2.0], [0.0, 0.2, -0.2, 0.1])
    columns, forms = {"a": 0, "b": 1}, [Series()] * 2
    for second, found in ((2.0, True), (2.1, False)):
        rows = judge([Claim("a", 1.0), Claim("b", second)], forms, columns, samples, 1e-4)
        # the undecided claim leaves the other as strict a level as an accepted one
        assert [row.accepted for row in rows] == [None, found]
        assert rows[0].p < 1e-4 and rows[0].p_holm == 1 and rows[1].p_holm == pytest.approx(min(1, 2 * rows[1].p))
        assert rows[0].widths == WIDTHS and not doubtful(rows[:1], 1e-4)


@pytest.mark.parametrize("tail", ["normal", "squared"])
def test_true_limits_are_not_rejected_for_leaving_widths_out(seed, tail):
    """400 true claims at level 0.05: more than 36 are rejected with probability 4e-4 by a test of that level."""
    rng, found = numpy.random.default_rng(seed), []
    for _ in range(400):
        samples = []
        for n in WIDTHS:
            noise = rng.standard_normal((100, 1))
            noise = noise if tail == "normal" else noise**2 - 1
            samples.append(Draws(n, 1 + (48 / n) ** 5 + 0.3 * noise / math.sqrt(n), numpy.ones(1)))
        (row,) = judge([Claim("a", 1.0)], [Series()], {"a": 0}, samples, 0.05)
        found.append((row.accepted, row.widths))
    assert sum(accepted is False for accepted, _ in found) <= 36
    assert any(widths != WIDTHS for _, widths in found)


def test_the_wrong_claim_among_true_ones_is_the_one_rejected(seed):
    samples = normal_draws(numpy.random.default_rng(seed), [1.0, 2.0, 3.0])
    claims = [Claim("a", 1.0), Claim("b", 2.1), Claim("c", 3.0)]
    rows = judge(claims, [Series()] * 3, {"a": 0, "b": 1, "c": 2}, samples, 1e-4)
    assert [row.accepted for row in rows] == [True, False, True]
    assert rows[1].z < -8 and rows[1].intercept == pytest.approx(2, abs=5 * rows[1].stderr)


def test_slopes_of_averages_and_of_fluctuations(seed):
    rng = numpy.random.default_rng(seed)
    samples = [
        Draws(
            n, numpy.stack([rng.standard_normal(4000) / math.sqrt(n), rng.standard_normal(4000)], axis=1), numpy.ones(2)
        )
        for n in WIDTHS
    ]
    claims = [Claim("θ", 0.0), Claim("s", 1.0, statistic="covariance"), Claim("θ", 0.0, 0.0, "covariance", "s")]
    mean, variance, covariance = judge(claims, [Series()] * 3, {"θ": 0, "s": 1}, samples, 1e-4)
    assert mean.slope == pytest.approx(-0.5, abs=0.05) and variance.slope == pytest.approx(0, abs=0.05)
    assert variance.accepted and covariance.accepted and variance.moments.scale == pytest.approx(1)


def test_what_the_draws_find_is_what_they_reject(seed):
    """A claim wrong by `finds` is rejected about 95 % of the time."""
    rng, found = numpy.random.default_rng(seed), 0
    for _ in range(300):
        samples = normal_draws(rng, [1.0], 100)
        (row,) = judge([Claim("a", 1.0)], [Series()], {"a": 0}, samples, 0.01)
        found += row.fit.two_sided(1.0 + row.finds, 0.0)[1] <= 0.01
    assert 267 <= found <= 299  # 300 draws of probability 0.95 leave these bounds with probability 2e-4


def test_quantities_are_measured_by_their_size_at_the_largest_width():
    """Squares of 9, 1 and 16 on average: 4 at the last width."""
    samples = [Draws(n, numpy.ones((3, 1)), numpy.array([square])) for n, square in ((8, 9.0), (16, 1.0), (32, 16.0))]
    assert moments_of(Claim("θ", 1.0), {"θ": 0}, samples).scale == pytest.approx(4)
    assert moments_of(Claim("θ", 0.0, 0.0, "covariance", "θ"), {"θ": 0}, samples).scale == pytest.approx(16)


def test_rows_against_the_draws_entry_by_entry():
    """Skewed and dependent columns: means, covariances and variances as NumPy has them, and what is found by them."""
    rng, counts = numpy.random.default_rng(1), (40, 30, 20, 50)
    samples = []
    for n, count in zip(WIDTHS, counts, strict=True):
        one = rng.exponential(size=count)
        values = numpy.stack([one, 3 * one + rng.standard_normal(count)], axis=1)
        samples.append(Draws(n, values, numpy.array([2.0, 8.0])))
    columns = {"a": 0, "b": 1}
    claims = [Claim("a", 1.0, 0.01), Claim("a", 3.0, 0.0, "covariance", "b"), Claim("b", 20.0, 0.0, "covariance", "b")]
    rows = judge(claims, [Series()] * 3, columns, samples, 0.02)
    for i, s in enumerate(samples):
        covariance = numpy.cov(s.values.T)
        assert rows[0].moments.means[i] == pytest.approx(s.values[:, 0].mean())
        assert rows[0].moments.variances[i] == pytest.approx(covariance[0, 0])
        assert rows[1].moments.means[i] == pytest.approx(covariance[0, 1])
        assert rows[2].moments.means[i] == pytest.approx(covariance[1, 1])
        products = numpy.prod(s.values - s.values.mean(axis=0), axis=1) * len(s.values) / (len(s.values) - 1)
        assert rows[1].moments.variances[i] == pytest.approx(products.var(ddof=1)), "of a covariance: as it is"
    relative = rows[2].moments.variances / numpy.maximum(20.0, rows[2].moments.means) ** 2
    assert relative == pytest.approx(relative[0]), (
        "of a variance: in proportion to its square, that of the claim at least"
    )
    assert [row.moments.scale for row in rows] == pytest.approx([2**0.5, 4.0, 8.0])
    apart = quantiles(0.02, 3)
    assert rows[0].finds == pytest.approx(apart * math.hypot(rows[0].stderr, 0.01))
    assert [row.tolerance for row in rows] == pytest.approx([0.02, 0.06, 0.4])
    assert [row.p_holm for row in rows] == holm([row.p for row in rows])
    deviations = [math.sqrt(((s.values[:, 0] - 1.0) ** 2).mean()) for s in samples]
    assert rows[0].slope == pytest.approx(numpy.polyfit(numpy.log(WIDTHS), numpy.log(deviations), 1)[0])
    assert rows[2].slope == pytest.approx(
        numpy.polyfit(numpy.log(WIDTHS), [math.log(s.values[:, 1].std()) for s in samples], 1)[0]
    )


def test_an_error_shared_by_all_widths_is_in_the_intercept():
    samples = normal_draws(numpy.random.default_rng(0), [1.0, 2.0])
    claims, columns = [Claim("a", 1.0), Claim("b", 2.0)], {"a": 0, "b": 1}
    plain = judge(claims, [Series()] * 2, columns, samples, 0.01)
    shared = judge(claims, [Series()] * 2, columns, samples, 0.01, ((0.0, math.inf), (0.3, 7.0)))
    assert shared[0] == plain[0] or shared[0].fit == plain[0].fit
    assert shared[1].stderr == pytest.approx(math.hypot(plain[1].stderr, 0.3))
    assert shared[1].fit.dof == pytest.approx(
        shared[1].stderr ** 4 / (plain[1].stderr ** 4 / plain[1].fit.dof + 0.3**4 / 7)
    )


def test_what_vanishes_at_every_width_has_the_scale_of_rounding():
    samples = [Draws(n, numpy.zeros((5, 1)), numpy.zeros(1)) for n in WIDTHS]
    assert moments_of(Claim("θ", 0.0), {"θ": 0}, samples).scale == 1e-9


@pytest.mark.parametrize("q", [0.5, 0.3])
def test_a_claim_is_rejected_that_no_misfit_explains(seed, q):
    """Means that approach 1 like n^(−q) follow no series in 1/n: true claims are never rejected, far ones are."""
    rng, found = numpy.random.default_rng(seed), []
    for sign in (1, -1) * 100:
        samples = strayed(rng, [1.0], [sign * (8 / n) ** q for n in WIDTHS], 8000)
        rows = [judge([Claim("a", value)], [Series()], {"a": 0}, samples, 0.05)[0] for value in (1.0, 1 - 2 * sign)]
        found.append([row.accepted for row in rows])
        assert all(row.z * sign > 0 for row in rows)
    right, wrong = zip(*found, strict=True)
    assert set(right) == {None} and set(wrong) == {False}


def test_a_claim_within_reach_of_the_misfit_stays_undecided(seed):
    samples = strayed(numpy.random.default_rng(seed), [1.0], [0.0, 0.2, -0.2, 0.1])
    rows = [judge([Claim("a", value)], [Series()], {"a": 0}, samples, 0.01)[0] for value in (1.3, 2.2, 0.0)]
    assert [row.accepted for row in rows] == [None, False, False]
    assert rows[0].p < 1e-9 and rows[1].p_holm < 1e-3
