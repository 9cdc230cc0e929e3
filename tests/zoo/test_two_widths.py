"""Wᵀrelu(W x) with W of k rows: every sum over k carries the ratio ρ = k/n."""

import pytest
import sympy

import tplimits as tp
from tplimits import zoo


@pytest.mark.parametrize("ratio", [1, 0.5, 3])
def test_limit(agrees, ratio):
    expected = {"return[0]": ratio / 2, "return[1]": ratio / 2 + ratio**2 / 4}
    agrees("two_widths", expected, ratios={"k": ratio})


def test_the_ratio_is_a_symbol():
    limit = tp.derive(zoo.get("two_widths").program)
    (ratio,) = limit.scalar("return[0]").free_symbols
    assert sympy.expand(limit.scalar("return[1]") - ratio / 2 - ratio**2 / 4) == 0


@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("two_widths")
    judge.rejects("two_widths", judge.without_dots("two_widths"), total=2e7)


@pytest.mark.long
@pytest.mark.sampling
def test_a_wide_hidden_layer():
    limit = tp.derive(zoo.get("two_widths").program)
    options = {"widths": (32, 64, 128), "draws": (6000, 3000, 1500), "seed": 2, "level": 1e-3, "ratios": {"k": 2}}
    assert tp.check(limit, **options).accepted
    assert not tp.check(limit, claims={"return[0]": 0.5}, **options).accepted
