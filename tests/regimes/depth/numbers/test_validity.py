"""Whether networks of a width are near the limit: the size of the logits they have."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import shaped

import tplimits as tp

NUMBERS = {"γ": 0.4, "τ0": 0.5}


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, tp.Proportional())


def test_the_spread_of_logits(attention):
    """exp: √(V_αα V_ββ)/(τ0 √n); the sum of exponentials over its mean m: √(V_αα V_x̄x̄)/(τ0 √n)."""
    V = np.array([[4.0, 1.0], [1.0, 2.0]])
    found = attention.spread_at(V, n=100, **NUMBERS)
    wanted = {"exp": 4 / 5, "power -1": np.sqrt(4 * V.mean()) / 5}
    for name, value in wanted.items():
        (spread,) = [s for key, s in found.items() if name in key]
        assert abs(spread - value) < 1e-12
    assert all(s.shape == (3,) for s in attention.spread_at(np.stack([V] * 3), n=100, **NUMBERS).values())


def test_networks_have_this_spread(attention):
    n = 100
    x = np.sqrt(n) * np.linalg.cholesky(np.array([[4.0, 1.0], [1.0, 2.0]])) @ np.linalg.qr(
        np.random.default_rng(0).standard_normal((n, 2)))[0].T  # fmt: skip
    Y = np.array([shaped.shaped_attention.run(n=n, seed=s, x=x, **NUMBERS)["Y"] for s in range(150)])
    (spread,) = [s for key, s in attention.spread_at(x @ x.T / n, n=n, **NUMBERS).items() if "exp" in key]
    assert abs(Y[:, 0, 0].std() / spread - 1) < 0.2


def test_a_warning_where_they_are_not_small(attention):
    """Tokens of norm 10 √n at n = 200."""
    asked = {"T": 0.01, "dt": 0.01, "paths": 20, **NUMBERS}
    with pytest.warns(
        UserWarning, match=r"networks of width n=200 are not near this limit: .*of the argument of exp in `A` "
    ):
        attention.simulate(100 * np.eye(2), n=200, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attention.simulate(100 * np.eye(2), **asked)
        attention.simulate(np.eye(2), n=200, **asked)
    with pytest.raises(tp.EvaluationError, match="n=0"):
        attention.simulate(np.eye(2), n=0, **asked)


def test_nothing_is_expanded_in_a_perceptron():
    sde = tp.derive(shaped.relu_mlp, tp.Proportional())
    assert sde.spread_at(np.eye(2), n=10, c_plus=0, c_minus=-1) == {}
