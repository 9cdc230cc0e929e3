"""Layer-normalised relu through Wᵀ: moments of relu by integrals, then hat 1 and dot (1/4)/v."""

import pytest


def test_limit(agrees, mean):
    m = mean(lambda g: g if g > 0 else 0)
    v = mean(lambda g: (g if g > 0 else 0) ** 2) - m**2
    slope = mean(lambda g: 1 if g > 0 else 0)
    agrees("layer_norm", {"return": 1 + slope**2 / v, "m": m, "v": v})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("layer_norm")
    judge.rejects("layer_norm", judge.without_dots("layer_norm"), total=2e7)
