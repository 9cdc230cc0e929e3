"""(W Wᵀ)^k: the moments of the Marchenko–Pastur law, integrated from its density."""

import mpmath
import pytest


def marchenko_pastur(k):
    """∫ λ^k dμ with density √(λ(4 − λ))/(2πλ) on (0, 4), in λ = 4 sin²t."""
    return mpmath.quad(lambda t: (4 * mpmath.sin(t) ** 2) ** k * 4 * mpmath.cos(t) ** 2 / mpmath.pi, [0, mpmath.pi / 2])


@pytest.mark.parametrize("k", [2, 3, 4])
def test_limit(agrees, k):
    agrees(f"gram_power_{k}", {"return": marchenko_pastur(k)})


@pytest.mark.sampling
@pytest.mark.parametrize("k", [2, 3, 4])
def test_finite_width(judge, k):
    name = f"gram_power_{k}"
    judge.accepts(name)
    judge.rejects(name, judge.without_dots(name), total=2e7)
