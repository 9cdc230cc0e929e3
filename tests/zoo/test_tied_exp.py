"""Wᵀexp(W x / 2): lognormal moments, and the remark that the hypothesis is not met."""

import mpmath
import pytest

import tplimits as tp
from tplimits import zoo


def test_limit(agrees):
    slope, power = mpmath.exp(mpmath.mpf(1) / 8) / 2, mpmath.exp(mpmath.mpf(1) / 2)
    agrees("tied_exp", {"return[0]": slope, "return[1]": power + slope**2})


def test_the_derivation_says_that_exp_is_not_pseudo_lipschitz():
    steps = tp.derive(zoo.get("tied_exp").program).steps
    assert any("pseudo-Lipschitz" in remark for step in steps for remark in step.remarks)


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("tied_exp")
    judge.rejects("tied_exp", judge.without_dots("tied_exp"), total=2e7)
