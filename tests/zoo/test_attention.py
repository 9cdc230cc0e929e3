"""Attention over three tokens: the softmax of the identity, and mixtures of orthogonal values."""

import mpmath
import pytest


def weights():
    own, other = mpmath.e / (mpmath.e + 2), 1 / (mpmath.e + 2)
    return own, other


def test_limit(agrees, symmetric):
    own, other = weights()
    expected = symmetric("token", 3, own**2 + 2 * other**2, 2 * own * other + other**2)
    expected |= {f"A[token={i},key={j}]": own if i == j else other for i in range(3) for j in range(3)}
    agrees("attention", expected)


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("attention", total=2e8)
    # uniform attention, as with separate matrices for queries and keys
    judge.rejects("attention", {"A[token=0,key=0]": 1 / 3}, total=2e7)
    judge.rejects("attention", {"A[token=0,key=1]": 1.05 * float(weights()[1])}, total=2e8)
