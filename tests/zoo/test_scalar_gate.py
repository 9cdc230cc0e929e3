"""A gate of averages: a number times the tied-tanh coefficient."""

import mpmath
import pytest


def test_limit(agrees, mean):
    s = 1 / (1 + mpmath.exp(-mean(lambda g: g if g > 0 else 0)))
    agrees("scalar_gate", {"return": s * mean(lambda g: mpmath.sech(g) ** 2), "s": s})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("scalar_gate")
    judge.rejects("scalar_gate", judge.without_dots("scalar_gate"), total=2e7)
