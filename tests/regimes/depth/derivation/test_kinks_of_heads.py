"""Jumps of logits that an array scales, each head by its own: the closed mean of two signs, and what it looks like."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 0.8]])
SCALES = np.random.default_rng(0).uniform(0.5, 2, (3, 2, 2))
CONSTANTS = {"γ": 0.7, "τ0": 0.8}


@tp.block
def signs(
    x: tp.State["token"], WQ: tp.Matrix["k", "n", "head"], WK: tp.Matrix["k", "n", "head"], WV: tp.Matrix, *, γ, τ0
):
    k, v = (WK @ x).rename(token="key"), (WV @ x).rename(token="key")
    Y = tp.avg((WQ @ x) * k) * tp.sqrt(tp.width("k")) / (tp.sqrt(tp.n) * τ0)
    weights = tp.sum(tp.sign(tp.constant(SCALES, axes=("head", "token", "key")) * Y), over="head") / tp.sqrt(tp.n)
    return tp.sqrt(1 - γ**2) * x + γ * (WV @ x + tp.sum(weights * v, over="key"))


def test_heads_are_independent_and_a_scale_leaves_no_trace_in_a_sign():
    sde = tp.derive(signs, tp.Proportional())
    d = np.sqrt(np.diag(V))
    ρ = V / np.outer(d, d)
    means = 2 / np.pi * np.arcsin(np.einsum("ab,vk->avbk", ρ, ρ).clip(max=1.0))
    wanted = 3 * 0.49 * np.einsum("avbk,vk->ab", means, V)
    found = sde.drift_at(V, **CONSTANTS)
    assert np.abs(found - wanted).max() < 1e-6
    assert np.abs(found - wanted / 3).max() > 0.1  # one head
    end = sde.simulate(V, T=0.02, dt=0.02, paths=4000, method="dense", seed=3, **CONSTANTS)
    mean, error = end.V.mean(axis=0), end.V.std(axis=0) / np.sqrt(4000)
    assert (np.abs(mean - V - 0.02 * wanted) < 4.5 * error).all()
    assert (np.abs(mean - V) > 4.5 * error).any()


def test_what_is_printed_and_refused():
    sde = tp.derive(signs, tp.Proportional())
    assert "κ[ανhβκh] V[νκ]" in repr(sde) and "(h, 1, 3)" in str(sde.drift)
    with pytest.raises(tp.EvaluationError, match="V is for 3 tokens"):
        sde.drift_at(np.eye(3), **CONSTANTS)
    with pytest.raises(tp.EvaluationError, match="needs a square root of Σ"):
        sde.simulate(V, T=0.1, dt=0.1, paths=2, **CONSTANTS)
