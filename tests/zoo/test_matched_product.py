"""⟨x|WᵀW x⟩ = E|W x|²/n: the mean square of standard normals."""

import pytest


def test_limit(agrees):
    agrees("matched_product", {"return": 1})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("matched_product")
    judge.rejects("matched_product", judge.without_dots("matched_product"), total=2e7)
