"""A recurrent network: the arcsine recursion of the covariances of all steps."""

import mpmath
import pytest


def covariances(shared):
    """⟨x_s|x_t⟩ for s, t ≤ 3; without shared weights different steps see independent matrices."""
    x = {(0, 0): mpmath.mpf(1)}
    h = {}
    for t in range(1, 4):
        for s in range(1, t + 1):
            seen = x[s - 1, t - 1] if shared or s == t else 0
            h[s, t] = seen + 1
        for s in range(1, t + 1):
            x[s, t] = 2 / mpmath.pi * mpmath.asin(2 * h[s, t] / mpmath.sqrt((1 + 2 * h[s, s]) * (1 + 2 * h[t, t])))
        x[0, t] = mpmath.mpf(0)  # x0 meets nothing but W
    return x


def test_limit(agrees):
    x = covariances(shared=True)
    agrees("tied_rnn", {"return[0]": x[3, 3], "return[1]": x[2, 3]})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("tied_rnn")
    judge.rejects("tied_rnn", {"return[1]": float(covariances(shared=False)[2, 3])})
