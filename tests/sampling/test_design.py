"""How many draws: enough for the demand, cheaper than equal numbers, and honest when nothing helps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy
import pytest
import scipy.optimize
import scipy.stats

from tplimits.sampling import design
from tplimits.sampling.design import Demand, allocate, demand, quantiles, tolerance
from tplimits.sampling.estimate import SampleMoments, Series, fit

WIDTHS = (64, 128, 256, 512)
COSTS = [float(n * n) for n in WIDTHS]
SPREAD = numpy.array([2.0 / n for n in WIDTHS])


def moments(draws=(100,) * 4, widths=WIDTHS, scale=1.0):
    return SampleMoments(widths, tuple(draws), numpy.ones(len(widths)), 2.0 / numpy.array(widths), scale)


def test_the_design_reaches_the_standard_error_it_was_asked_for():
    draws = allocate([Demand(moments(), Series(), 0.004)], COSTS)
    assert 0.0035 < fit(moments(draws), Series()).stderr <= 0.00402


def test_it_is_cheaper_than_equal_draws_at_every_width():
    draws = allocate([Demand(moments(), Series(), 0.004)], COSTS)
    equal = 100
    while fit(moments((equal,) * 4), Series()).stderr > 0.004:
        equal = equal * 11 // 10
    assert numpy.dot(draws, COSTS) < equal * sum(COSTS)


def test_every_width_keeps_a_share_so_that_lack_of_fit_shows():
    draws = allocate([Demand(moments(), Series(), 0.001)], COSTS)
    work = numpy.array(draws) * COSTS
    assert (work >= 0.05 * work.sum()).all()


def test_the_strictest_demand_decides():
    easy, hard = Demand(moments(), Series(), 0.02), Demand(moments(), Series(), 0.004)
    assert allocate([easy, hard], COSTS) == allocate([hard], COSTS)


def test_the_hardest_demand_is_met_first_whatever_the_order_and_the_units():
    """What is hard is so beside its noise; in 1/√n its draws stand elsewhere, and meet the easy one by the way."""
    loud = SampleMoments(WIDTHS, (100,) * 4, numpy.ones(4), 2e6 / numpy.array(WIDTHS), 100.0)
    hard = Demand(loud, Series((Fraction(1, 2), Fraction(1))), 3.0)
    easy = Demand(moments(), Series(), 0.0035)
    alone = allocate([hard], COSTS)
    assert fit(moments(alone), Series()).stderr < 0.0035
    assert allocate([easy], COSTS)[2] > alone[2]
    assert allocate([hard, easy], COSTS) == allocate([easy, hard], COSTS) == alone


def test_a_width_with_hardly_any_noise_need_not_have_its_share():
    still = SampleMoments(WIDTHS, (100,) * 4, numpy.ones(4), 1e-2 * (64 / numpy.array(WIDTHS)) ** 6, 1.0)
    costs = [64.0, 16.0, 4.0, 1.0]
    draws = allocate([Demand(still, Series(), 4e-4)], costs)
    assert draws[-1] < 0.1 * numpy.dot(draws, costs)


def test_two_widths_cannot_separate_curvature_from_the_intercept():
    """c/n² of size (3/n)²: with widths 8 and 16 the intercept stays uncertain by about 9/(8·16) whatever the draws."""
    draws = allocate([Demand(moments((100, 100), (8, 16)), Series(), 0.004)], [64.0, 256.0])
    assert max(draws) > 10**9


def test_tolerances():
    assert tolerance(0.6, 0.0, 1.0) == pytest.approx(0.012)
    assert tolerance(-0.6, 0.0, 1.0) == pytest.approx(0.012)
    assert tolerance(0.0, 0.0, 3.0) == pytest.approx(0.15)
    assert tolerance(1e-12, 0.0, 3.0) == pytest.approx(0.15), "a zero up to rounding is zero"
    assert tolerance(0.01, 0.02, 3.0) == pytest.approx(0.15), "a zero up to its own error is zero"
    assert [tolerance(v, 0.1, 3.0) for v in (0.29, 0.31)] == pytest.approx([0.15, 0.0062]), "up to three errors"
    assert [tolerance(v, 0.0, 2e6) for v in (1.9, 2.1)] == pytest.approx([1e5, 0.042]), "up to a millionth of the scale"
    assert tolerance(0.0, 0.0, 3.0, 0.7) == pytest.approx(0.014), "of the size that is given"


def test_a_claim_at_the_tolerance_is_found_with_the_stated_probability():
    level, claims = 0.01, 3
    apart = quantiles(level, claims)
    threshold = scipy.stats.norm.isf(level / (2 * claims))
    assert scipy.stats.norm.sf(threshold - apart) == pytest.approx(0.95)


def test_the_error_of_the_claim_tightens_the_demand():
    free = demand(moments(), Series(), 0.6, 0.0, 0.01, 1)
    tight = demand(moments(), Series(), 0.6, 0.001, 0.01, 1)
    assert tight.target == pytest.approx(math.sqrt(free.target**2 - 0.001**2))
    assert demand(moments(), Series(), 0.6, 0.01, 0.01, 1).target == 0.01, "no draws help against the claim's own error"
    close = demand(moments(), Series(), 0.6, 0.99 * free.target, 0.01, 1)
    assert close.target == free.target, "what would be left, a seventh, costs fifty times the draws"


@pytest.mark.parametrize("costs", [COSTS, [float(n) for n in WIDTHS]])
def test_no_other_design_of_the_same_error_is_cheaper(costs):
    """Against a search over shares of work by another method, the least share of every width left aside."""
    asked, cost = Demand(moments(), Series(), 0.004), numpy.array(costs)

    def work(logs):
        """Of draws in these proportions, scaled so that they reach the target."""
        shape = numpy.exp(logs - logs.max())
        low, high = 1e-3, 1e12
        for _ in range(40):
            middle = math.sqrt(low * high)
            high, low = (middle, low) if variance(middle * shape / cost) < asked.target**2 else (high, middle)
        return math.log(high * shape.sum())

    def variance(draws):
        """Of the intercept: of the four means, and of a curvature of unknown size."""
        rows, noise = asked.rows, asked.moments.law / draws
        covariance = numpy.diag(noise) + numpy.outer(rows[:, -1], rows[:, -1])
        whitened = numpy.linalg.solve(covariance, rows[:, :-1])
        return numpy.linalg.inv(rows[:, :-1].T @ whitened)[0, 0]

    best = scipy.optimize.minimize(work, numpy.zeros(4), method="Nelder-Mead", options={"maxiter": 100}).fun
    found = design._cheapest(asked, cost)
    assert variance(found) <= 1.001 * asked.target**2
    assert math.log(found @ cost) < best + 0.01


@pytest.mark.parametrize("bend", [0.03, 1.0, 40.0])
def test_the_variance_of_an_intercept_and_what_one_draw_more_gains(bend):
    """Of means with a curvature of unit variance in common; the gain is a derivative."""
    rows = numpy.array([[1, 0.5, bend * 0.25], [1, 0.25, bend * 0.0625], [1, 0.125, bend * 0.015625]])
    noise, draws = numpy.array([2.0, 0.7, 0.4]), numpy.array([30.0, 400.0, 90.0])

    def by_the_definition(draws):
        covariance = numpy.diag(noise / draws) + numpy.outer(rows[:, -1], rows[:, -1])
        return numpy.linalg.inv(rows[:, :-1].T @ numpy.linalg.solve(covariance, rows[:, :-1]))[0, 0]

    variance, gain = design._variance(rows, noise, draws, 1)
    assert variance == pytest.approx(by_the_definition(draws), rel=1e-10)
    slopes = [(by_the_definition(draws - e) - by_the_definition(draws + e)) / 0.02 for e in 0.01 * numpy.eye(3)]
    assert gain == pytest.approx(slopes, rel=1e-5)
