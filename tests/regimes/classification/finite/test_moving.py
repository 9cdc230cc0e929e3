"""Networks in which a value moves: shares that stay, and shares that fall to 0."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

import tplimits as tp
from tplimits.regimes.classification.finite.moving import Moving, size

WIDTHS, TRIALS, LEVEL = (32, 64, 128), 2000, 0.01


def moving(many, share, rng):
    """Values of networks that are 0 but for a share of them at each width."""
    values = [(rng.random((m, 1)) < s).astype(float) for m, s in zip(many, share, strict=True)]
    return Moving.of(WIDTHS, values)


FEW, MANY = (64, 32, 16), (512, 512, 512)


@pytest.mark.parametrize(("share", "many"), [(0.05, MANY), (0.5, MANY), (0.9, MANY), (0.3, FEW), (0.5, FEW)])
def test_a_share_that_stays_falls_as_often_as_the_level_says(share, many):
    """Twice the level at most, as of counts that are as coarse as these; .3 of networks had been the least share."""
    rng = np.random.default_rng(5)
    found = [moving(many, [share] * 3, rng) for _ in range(TRIALS)]
    fallen = sum(not any(m.fitted(LEVEL, False)[1]) for m in found)
    assert fallen <= binom.isf(1e-4, TRIALS, 2 * LEVEL)


def gates(offset, seed):
    """relu(⟨y²⟩ − 1 − offset(n)) of 512 networks of each width."""
    rng = np.random.default_rng(seed)
    return [np.maximum(rng.chisquare(n, (512, 1)) / n - 1 - offset(n), 0) for n in WIDTHS]


def test_shares_of_gates_that_are_shut_in_the_limit_fall():
    """Φ(−δ √n) with δ = .2/√2 at ⟨y²⟩ = 1.2; that of 1 + 2/√n, open in 8 % at every width, does not."""
    for seed in range(20):
        shut = Moving.of(WIDTHS, gates(lambda n: 0.2, seed))
        assert shut.trend < -3 and not any(shut.fitted(LEVEL / 10, False)[1])
        kept = Moving.of(WIDTHS, gates(lambda n: 2 / np.sqrt(n), seed))
        assert abs(kept.trend) < 3.5
        widths, sizes, _ = kept.fitted(LEVEL / 10, False)
        assert widths == WIDTHS and [len(s) / 512 for s in sizes] == pytest.approx([0.08] * 3, abs=0.05)


def test_what_is_counted_to_be_zero_is_left_undecided_where_its_share_seems_to_fall():
    ones = [np.ones((k, 1)) for k in (6, 2, 2)]
    drawn = [np.concatenate([one, np.zeros((m - len(one), 1))]) for one, m in zip(ones, (16, 8, 8), strict=True)]
    found = Moving.of(WIDTHS, drawn)
    assert -norm.isf(LEVEL) < found.trend < 0
    assert not found.fitted(LEVEL, True)[2] and found.fitted(LEVEL, False)[2]
    # seen in one network of the narrowest width alone it is 0, or not known
    once = Moving.of(WIDTHS, [np.eye(16)[:, :1], np.zeros((8, 1)), np.zeros((8, 1))])
    assert once.fitted(LEVEL, True) == (WIDTHS, [[], [], []], True)
    assert once.fitted(LEVEL, False) == (WIDTHS, [[], [], []], False)


@tp.network
def gated(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
    return v * tp.sum(U * ξ, over="d") * tp.relu(tp.avg(y * y) - 1 - 2 / tp.sqrt(tp.n))


@pytest.mark.sampling
def test_a_gate_that_opens_in_few_networks_is_measured_in_those():
    """E f² = E relu(z √2 − 2)²/n at every width, from 8 % of networks: the check had measured 0 and n^(−∞)."""
    check = tp.classify(gated, tp.NTP, tp.SGD()).check(WIDTHS, seed=1)
    (start,) = (row for row in check.rows if (row.name, row.t) == ("f", 0))
    assert abs(start.measured + 0.5) < max(start.error, 0.25)
    assert check.measured_regime == "trivial"


def test_sizes_of_networks_that_ran_away_are_no_infinite_powers():
    values = np.array([[3e200, 4e200], [3.0, 4.0], [0.0, 0.0]])
    assert size(values) == pytest.approx([np.sqrt(12.5) * 1e200, np.sqrt(12.5), 0.0])
