"""Sizes of stacks of blocks, counted with multiplicity: sums written out, and their powers of the depth."""

from __future__ import annotations

from fractions import Fraction

import pytest

import tplimits as tp
from tplimits.regimes.classification.derivation.stacks import branches, damped, power_of, stacked

HALF = Fraction(1, 2)
DEPTHS = (2, 4, 8)


def stack(depth, φ, weight):
    """x + Σ W_l φ(x), with the weight of each block that `weight` says."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "block"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for b in range(depth):
            x = x + W.sel(block=weight(b)) @ φ(x)
        return v * x

    return net.bind(block=depth)


def perceptrons(depth):
    """x + Σ W_l relu(V_l x)."""

    @tp.network
    def net(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        V: tp.Matrix["n", "n", "block"],
        W: tp.Matrix["n", "n", "block"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        for b in range(depth):
            x = x + W.sel(block=b) @ tp.relu(V.sel(block=b) @ x)
        return v * x

    return net.bind(block=depth)


def own(block):
    return block


def shared(block):
    return 0


def counted(net, factor):
    return stacked(damped(net, {b.end for b in branches(net)}), factor)


def start_of(φ, weight, α):
    return power_of("the sum", [counted(stack(d, φ, weight), d**-α).start for d in DEPTHS])


@pytest.mark.parametrize("c", (0.5, 1.0, 3.0))
def test_sums_of_two_blocks(c):
    """Terms of one weight add up, those of different ones in squares; tanh is 1 at most, relu its argument."""

    def size(φ, weight):
        return counted(stack(2, φ, weight), c).start

    assert size(tp.tanh, own) == pytest.approx((1 + 2 * c**2) ** 0.5)
    assert size(tp.tanh, shared) == pytest.approx((1 + (2 * c) ** 2) ** 0.5)
    assert size(tp.relu, own) == pytest.approx(1 + c**2)
    assert size(tp.relu, shared) == pytest.approx((1 + (c + c * (1 + c**2) ** 0.5) ** 2) ** 0.5)


@pytest.mark.parametrize(
    ("weight", "α", "start"),
    [(own, 0, HALF), (own, 0.5, 0), (own, 1, 0), (shared, 0, 1), (shared, 0.5, HALF), (shared, 1, 0)],
)
def test_powers_of_the_depth(weight, α, start):
    assert start_of(tp.tanh, weight, α) == start


@pytest.mark.parametrize("α", (HALF, Fraction(1)))
def test_gradients_of_stacks_that_neither_grow_nor_vanish(α):
    """L blocks whose gradients are L^(−α) each; the first and the last weight see what is added up."""
    found = [counted(perceptrons(d), d ** -float(α)) for d in DEPTHS]
    powers = {name: power_of(name, [f.gradients[name] for f in found]) for name in "UVWv"}
    assert powers == {"U": 0, "V": 1 - α, "W": 1 - α, "v": 0}
    assert power_of("the sum", [f.start for f in found]) == 0


@pytest.mark.parametrize("c", (0.5, 2.0))
def test_gradients_of_one_block(c):
    """∂v = x + c W relu(V x), ∂W = c v relu(V x), ∂V = c Wᵀv x, ∂U = v + c Vᵀ Wᵀ v."""
    sum_ = pytest.approx((1 + c**2) ** 0.5)
    assert counted(perceptrons(1), c).gradients == {"U": sum_, "V": c, "W": c, "v": sum_}


def test_what_doubles_with_every_block_goes_by_no_power():
    with pytest.raises(
        tp.NoLimitError, match=r"the sum goes like L\^1\.\d, then like L\^\d\.\d as the depth L doubles"
    ):
        start_of(tp.relu, own, 0)


@pytest.mark.parametrize("power", (-1.0, -0.5, 0.0, 0.5, 1.5))
def test_powers_are_read_off_ratios(power):
    """Also where something smaller stands beside; what is 0 somewhere has none."""
    assert power_of("it", [7 * d**power for d in DEPTHS]) == Fraction(power)
    assert power_of("it", [7 * d**power * (1 + 1 / d) for d in (16, 32, 64)]) == Fraction(power)
    assert power_of("it", [0.0, 1.0, 2.0]) == power_of("it", [1.0, 0.0, 2.0]) == 0


def test_branches_end_where_they_are_added():
    net = stack(3, tp.relu, own)
    found = branches(net)
    assert [net[b.end].matrix_indices for b in found] == [(0,), (1,), (2,)]
    assert len({b.stream for b in found}) == 3 and all(b.stream < b.end for b in found)
