"""E|x − x′|: the mean absolute value of a normal of variance 2."""

import mpmath
import pytest

FORMULA = 2 / mpmath.sqrt(mpmath.pi)


def test_limit(agrees, mean):
    integral = mean(lambda g: abs(mpmath.sqrt(2) * g))
    assert mpmath.almosteq(FORMULA, integral, 1e-12)
    agrees("mean_distance", {"return": integral})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("mean_distance")
    judge.rejects("mean_distance", {"return": 1.05 * float(FORMULA)})
