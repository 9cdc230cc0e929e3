"""⟨x|W W x⟩: x and W W x are uncorrelated, entry by entry."""

import pytest


def test_limit(agrees):
    agrees("repeated_product", {"return": 0})


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("repeated_product")
    judge.rejects("repeated_product", {"return": 0.05})
