"""W x: the variance of the fresh Gaussian is ⟨x|x⟩ = 1."""

import pytest


def test_limit(agrees):
    agrees("one_matmul", {"⟨return|return⟩": 1})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("one_matmul")
    judge.rejects("one_matmul", {"return": 1.05})
