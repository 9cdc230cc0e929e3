"""⟨x|Wᵀstep(W x)⟩ = ⟨W x|step(W x)⟩, by adjointness: no derivative of the step is taken."""

import pytest


def test_limit(agrees, mean):
    agrees("tied_step", {"return": mean(lambda g: g if g > 0 else 0)})


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("tied_step")
    judge.rejects("tied_step", judge.without_dots("tied_step"), total=2e7)
