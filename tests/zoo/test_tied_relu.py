"""Wᵀrelu(W x): hat variance E relu² and dot coefficient E step."""

import pytest


def test_limit(agrees, mean):
    power = mean(lambda g: g**2 if g > 0 else 0)
    slope = mean(lambda g: 1 if g > 0 else 0)
    agrees("tied_relu", {"⟨return|return⟩": power + slope**2})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("tied_relu")
    judge.rejects("tied_relu", judge.without_dots("tied_relu"), total=2e7)
