"""(UᵀWᵀWU)²: the Fuss–Catalan number; and by the free product of two Marchenko–Pastur laws."""

import mpmath
import pytest


def test_limit(agrees):
    fuss_catalan = mpmath.binomial(6, 2) / 5
    # moments of a free product: m₂ = a₂ b₁² + a₁² b₂ − a₁² b₁², with moments 1 and 2 on both sides
    assert fuss_catalan == 2 + 2 - 1
    agrees("product_gram_2", {"return": fuss_catalan})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("product_gram_2")
    judge.rejects("product_gram_2", judge.without_dots("product_gram_2"), total=2e7)
