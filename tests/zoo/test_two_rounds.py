"""Up, down, up: brackets of the operator |W| and its adjoint, worked out by hand.

x′ = Wᵀrelu(h) is Gaussian of variance 1/2 + 1/4 with covariance 1/2 to x.  Moving W to the other side,
⟨relu(h)|W relu(x′)⟩ = ⟨x′|relu(x′)⟩ = (3/4)/2.  The dot-ket of h′ = W relu(x′) is |relu(h)⟩ E step(x′), its hat has
variance E relu²(x′) = 3/8 and covariance ⟨relu(x′)|x⟩ = (1/2)(1/2) to that of h.
"""

import mpmath
import pytest


def test_limit(agrees):
    half = mpmath.mpf(1) / 2
    variance = half + half**2
    overlap = variance * half
    hat_with_up = (half * half) * half  # Cov(ĥ′, ĥ) E step(ĥ), by Stein
    assert hat_with_up + half * half == overlap
    norm = variance * half + 2 * half * hat_with_up + half**2 * half
    agrees("two_rounds", {"return[0]": overlap, "return[1]": norm})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("two_rounds")
    judge.rejects("two_rounds", judge.without_dots("two_rounds"), total=2e7)
