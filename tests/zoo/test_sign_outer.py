"""⟨h|sign(h xᵀ)|x⟩ = E|h| E|x|."""

import math

import mpmath
import pytest

FORMULA = 2 / math.pi


def test_limit(agrees, mean):
    integral = mean(abs)
    assert mpmath.almosteq(FORMULA, integral**2, 1e-12)
    agrees("sign_outer", {"return": integral**2})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("sign_outer")
    judge.rejects("sign_outer", {"return": 1.05 * FORMULA})
