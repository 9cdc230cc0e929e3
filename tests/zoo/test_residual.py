"""Three residual layers: each multiplies ⟨y|y⟩ by 1 + E relu²(g) and leaves ⟨x|y⟩ alone."""

import pytest


def test_limit(agrees, mean):
    growth = 1 + mean(lambda g: g**2 if g > 0 else 0)
    agrees("residual", {"return[0]": growth**3, "return[1]": 1})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("residual", total=2e8)
    judge.rejects("residual", {"return[0]": 1.05 * 3.375}, total=2e8)
