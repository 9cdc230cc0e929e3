"""Values of influence: their mean is the statistic, each says how the statistic changes with a draw."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from tplimits.regimes.depth.numbers.influence import bandwidth, of_correlation, of_deviation, of_quantile

DRAWS = 400
RNG = np.random.default_rng(0)
#: draws with a mean, a scale and a skew
X = 3 + 2 * RNG.exponential(size=DRAWS)
Y = X + RNG.exponential(size=DRAWS) * RNG.standard_normal(DRAWS) - 5


def deviation(weights, x):
    mean = weights @ x
    return math.sqrt(weights @ (x - mean) ** 2 * DRAWS / (DRAWS - 1))


def correlation(weights, x, y):
    centred = np.stack([x - weights @ x, y - weights @ y])
    (a, b), (_, c) = (centred * weights) @ centred.T
    return b / math.sqrt(a * c)


@pytest.mark.parametrize(
    ("values", "statistic", "samples"),
    [(of_deviation, deviation, (X,)), (of_correlation, correlation, (X, Y)), (of_correlation, correlation, (Y, -X))],
)
def test_values_are_the_change_by_more_weight_of_a_draw(values, statistic, samples):
    """S(F + ε (δ_i − F)) = S(F) + ε ψ_i: weights in place of draws."""
    found, even, ε = values(*samples), np.full(DRAWS, 1 / DRAWS), 1e-6
    whole = statistic(even, *samples)
    moved = np.array([statistic((1 - ε) * even + ε * one, *samples) for one in np.eye(DRAWS)])
    assert found.mean() == pytest.approx(whole, rel=1e-12)
    ψ = (moved - whole) / ε
    np.testing.assert_allclose(found - whole, ψ, atol=1.5 / DRAWS * np.abs(ψ).max())


@pytest.mark.parametrize("q", [0.05, 0.5, 0.8])
def test_a_quantile_has_the_spread_of_its_density(q):
    """√(q(1 − q))/f at exact quantiles of a normal law, whose cells are all alike."""
    normal, many = NormalDist(1.0, 2.0), 20_000
    x = np.array([normal.inv_cdf((k + 0.5) / many) for k in range(many)])
    found = of_quantile(np.stack([x, -x], axis=1), q)
    wanted = normal.inv_cdf(q)
    np.testing.assert_allclose(found.mean(axis=0), [wanted, -normal.inv_cdf(1 - q)], atol=1e-3)
    np.testing.assert_allclose(found.std(axis=0), math.sqrt(q * (1 - q)) / normal.pdf(wanted), rtol=0.03)


def test_the_bandwidth_is_that_of_bofinger():
    """h⁵ N = 4.5 φ⁴/(2z² + 1)² at a normal quantile z; none at the ends."""
    for q, z in ((0.5, 0.0), (NormalDist().cdf(1.0), 1.0), (NormalDist().cdf(-2.0), -2.0)):
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        assert bandwidth(q, 50) ** 5 * 50 == pytest.approx(4.5 * density**4 / (2 * z * z + 1) ** 2, rel=1e-9)
    assert bandwidth(0.0, 9) == bandwidth(1.0, 9) == 0.0


def test_what_does_not_vary_has_no_spread():
    still = np.full(4, 2.0)
    assert of_deviation(np.stack([still, X[:4]], axis=1))[:, 0].tolist() == [0] * 4
    assert of_correlation(still, X[:4]).tolist() == of_correlation(X[:4], still).tolist() == [0] * 4
    assert of_quantile(X[:4], 0.0).tolist() == [X[:4].min()] * 4
