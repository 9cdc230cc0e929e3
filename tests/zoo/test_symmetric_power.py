"""(W + Wᵀ)⁴: the fourth moment of the semicircle of variance 2, integrated from its density."""

import mpmath
import pytest


def test_limit(agrees):
    edge = 2 * mpmath.sqrt(2)
    fourth = mpmath.quad(
        lambda t: (edge * mpmath.sin(t)) ** 4 * mpmath.cos(t) ** 2 * 2 / mpmath.pi, [-mpmath.pi / 2, mpmath.pi / 2]
    )
    agrees("symmetric_power_4", {"return": fourth})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("symmetric_power_4")
    judge.rejects("symmetric_power_4", judge.without_dots("symmetric_power_4"), total=2e7)
