"""Gaussian bumps: a determinant, and the integral it stands for."""

import mpmath
import pytest

FORMULA = 1 / mpmath.sqrt(mpmath.det(mpmath.matrix([[1 + 2 * 1, 2 * 1], [2 * 1, 1 + 2 * 2]])))


def test_limit(agrees, mean):
    # given W a = g, W (a + b) is N(g, 1), and E exp(−(g + u)²) = exp(−g²/3)/√3 for a standard normal u
    integral = mean(lambda g: mpmath.exp(-(g**2)) * mpmath.exp(-(g**2) / 3) / mpmath.sqrt(3))
    assert mpmath.almosteq(FORMULA, integral, 1e-12)
    agrees("bump_kernel", {"return": integral})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("bump_kernel")
    judge.rejects("bump_kernel", {"return": 1.05 * float(FORMULA)})
