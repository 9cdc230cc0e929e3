"""Two ReLU layers: the arc-cosine map of order 1 (Cho & Saul 2009), twice."""

import mpmath
import pytest


def arc_cosine(c11, c12, c22):
    """E relu(u) relu(v) for centred u, v with these covariances."""
    angle = mpmath.acos(c12 / mpmath.sqrt(c11 * c22))
    return mpmath.sqrt(c11 * c22) * (mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle)) / (2 * mpmath.pi)


FORMULA = arc_cosine(mpmath.mpf(1) / 2, arc_cosine(1, 1, 2), 1)


def test_limit(agrees):
    agrees("relu_kernel", {"return": FORMULA})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("relu_kernel", total=3e8)
    judge.rejects("relu_kernel", {"return": 1.05 * float(FORMULA)}, total=3e8)
