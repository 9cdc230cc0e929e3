"""Batch normalisation of three: one integral over the chi-squared law of the empirical variance."""

import mpmath
import pytest


def share():
    """E[V/(V + 1/4)]; 3V is chi-squared with 2 degrees of freedom, so V is exponential with mean 2/3."""
    return mpmath.quad(lambda v: v / (v + 0.25) * 1.5 * mpmath.exp(-1.5 * v), [0, 1, 5, 40])


def test_limit(agrees, symmetric):
    # Σ_a y_a = 0 and Σ_a y_a² = 3 V/(V + 1/4)
    agrees("batch_norm", symmetric("input", 3, share(), -share() / 2))


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("batch_norm")
    judge.rejects("batch_norm", {"⟨return[input=0]|return[input=0]⟩": 1.05 * float(share())})
