"""⟨erf(W a)|erf(W (a + b))⟩: Williams' formula, and the integral it comes from."""

import mpmath
import pytest

FORMULA = 2 / mpmath.pi * mpmath.asin(2 / mpmath.sqrt((1 + 2) * (1 + 4)))


def test_limit(agrees, mean):
    # given W a = g, W (a + b) is N(g, 1), and E erf(g + u) = erf(g/√3) for a standard normal u
    integral = mean(lambda g: mpmath.erf(g) * mpmath.erf(g / mpmath.sqrt(3)))
    assert mpmath.almosteq(FORMULA, integral, 1e-12)
    agrees("arcsine_kernel", {"return": FORMULA})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("arcsine_kernel")
    judge.rejects("arcsine_kernel", {"return": 1.05 * float(FORMULA)})
