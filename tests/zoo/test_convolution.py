"""Two convolutions: the kernel recursion over positions, with the arc-cosine map between."""

import mpmath
import pytest

POSITIONS = 4


def relu_mean(c, variance):
    """E relu(u) relu(v) for u, v of one variance and covariance c."""
    angle = mpmath.acos(c / variance)
    return variance * (mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle)) / (2 * mpmath.pi)


def test_limit(agrees):
    def read(kernel, p, q):
        return sum(kernel((p + t) % POSITIONS, (q + t) % POSITIONS) for t in (-1, 0, 1))

    def first(p, q):
        return relu_mean(mpmath.mpf(read(lambda a, b: int(a == b), p, q)), 3)

    expected = {
        f"⟨return[out={p}]|return[out={q}]⟩": read(first, p, q) for p in range(POSITIONS) for q in range(p, POSITIONS)
    }
    agrees("convolution", expected)


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("convolution", total=3e8)
    judge.rejects("convolution", {"⟨return[out=1]|return[out=1]⟩": 1.05 * 4.5}, total=3e8)
