"""⟨sin(W a)|sin(W (a + b))⟩: half the difference of two characteristic functions."""

import mpmath
import pytest

FORMULA = mpmath.exp(-1.5) * mpmath.sinh(1)


def test_limit(agrees):
    apart, together = 1, 1 + 2 * 1 + 2  # Var(u − v), Var(u + v)
    value = (mpmath.exp(-mpmath.mpf(apart) / 2) - mpmath.exp(-mpmath.mpf(together) / 2)) / 2
    assert mpmath.almosteq(value, FORMULA, 1e-12)
    agrees("sine_kernel", {"return": value})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("sine_kernel")
    judge.rejects("sine_kernel", {"return": 1.05 * float(FORMULA)})
