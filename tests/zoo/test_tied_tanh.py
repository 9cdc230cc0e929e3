"""Wᵀtanh(W x): hat and dot from two one-dimensional integrals."""

import mpmath
import pytest


def test_limit(agrees, mean):
    slope = mean(lambda g: mpmath.sech(g) ** 2)
    power = mean(lambda g: mpmath.tanh(g) ** 2)
    assert abs(slope - 0.6057055096) < 1e-10
    agrees("tied_tanh", {"return[0]": slope, "return[1]": power + slope**2})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("tied_tanh")
    judge.rejects("tied_tanh", judge.without_dots("tied_tanh"), total=2e7)
