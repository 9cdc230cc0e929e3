"""Kinked functions of an array plus a logit, with powers of n and constants in front: means by hand, entry by entry."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])
PLACE = np.array([[0, -1, -2], [-1, 0, -1], [-2, -1, 0]])
POINT = {"γ": 0.7, "τ0": 0.8}


def block(function, place=PLACE):
    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        Y = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) / τ0
        F = function(tp.constant(place, ("token", "key")), Y, γ, τ0)
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))

    return tp.derive(attention, tp.Proportional())


def drift(means):
    """γ²(M V + V Mᵀ) of n E F → M where F² leaves nothing."""
    return POINT["γ"] ** 2 * (means @ V + V @ means.T)


#: E relu(Y) √n of a logit
_HALF = np.sqrt(np.outer(np.diag(V), np.diag(V)) / (2 * np.pi)) / POINT["τ0"]
_ZERO = PLACE == 0
CASES = {
    "relu": (lambda c, Y, γ, τ0: tp.relu(c + Y) / tp.sqrt(tp.n), drift(np.where(_ZERO, _HALF, 0))),
    "absolute": (
        lambda c, Y, γ, τ0: γ * tp.abs(c + Y) / tp.sqrt(tp.n) - γ * tp.abs(c) / tp.sqrt(tp.n),
        drift(POINT["γ"] * np.where(_ZERO, 2 * _HALF, 0)),
    ),
    "constants": (
        lambda c, Y, γ, τ0: γ**2 / τ0 * tp.relu(c + Y) * tp.relu(Y) * tp.sqrt(tp.n) / tp.sqrt(tp.n),
        drift(POINT["γ"] ** 2 / POINT["τ0"] * np.where(_ZERO, np.pi * _HALF**2, 0)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_constants_stand_in_front_of_arrays(name):
    function, expected = CASES[name]
    found = block(function).drift_at(V, **POINT)
    assert np.allclose(found, expected, atol=1e-9)
    # as if every entry of the array were at the kink
    twin = block(function, np.zeros((3, 3))).drift_at(V, **POINT)
    assert not np.allclose(twin, expected, atol=1e-2)


def test_what_has_no_limit_is_refused_for_that():
    with pytest.raises(tp.NoLimitError, match=r"drift of order sqrt\(n\)"):
        block(lambda c, Y, γ, τ0: tp.relu(1 - c + Y) / tp.sqrt(tp.n))
    with pytest.raises(tp.NoLimitError, match=r"constant array times a symbolic constant"):
        block(lambda c, Y, γ, τ0: tp.relu(γ * c + Y) / tp.sqrt(tp.n))


@pytest.mark.long
def test_heads_with_slopes_of_their_own_at_many_tokens():
    """Products of arrays over six indices and more are taken two at a time: the derivation hardly sees m."""
    m = 12
    distance = -np.abs(np.arange(m)[:, None] - np.arange(m))

    @tp.block
    def alibi(x: tp.State["token"], WQ: tp.Matrix["n", "n", "head"], WK: tp.Matrix, WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        Y = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) / τ0
        B = tp.constant([0.5, 0.25], ("head",)) * tp.constant(distance, ("token", "key"))
        F = tp.sum(tp.softmax(Y + B, over="key") - tp.softmax(B, over="key"), over="head") / 2
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))

    start = time.process_time()
    sde = tp.derive(alibi.bind(head=2), tp.Proportional())
    assert time.process_time() - start < 20
    assert sde.root is not None
