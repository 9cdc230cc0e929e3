"""Wᵀgelu(W x): the slope by Stein's identity E g gelu(g), the power as an integral, and both in closed form."""

import mpmath
import pytest


def test_limit(agrees, mean):
    slope = mean(lambda g: g * g * mpmath.ncdf(g))
    power = mean(lambda g: (g * mpmath.ncdf(g)) ** 2)
    assert mpmath.almosteq(slope, 0.5, 1e-12)
    assert mpmath.almosteq(power, mpmath.mpf(1) / 3 + 1 / (2 * mpmath.sqrt(3) * mpmath.pi), 1e-12)
    agrees("tied_gelu", {"return[0]": slope, "return[1]": power + slope**2})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("tied_gelu")
    judge.rejects("tied_gelu", judge.without_dots("tied_gelu"), total=2e7)
