"""Constant arrays on other axes than the tokens: slopes of heads under a mask, mixtures of heads, scales of heads.

With H heads and logits Σ_h′ M_hh′ Y_h′ + bias_h, drift and noise follow from those of a single head with the mask
p_h = softmax(bias_h): b is the average over heads of s_h b(p_h), s_h = Σ_h′ M_hh′², and the noise of the logits of a
head h′ is (1/H) Σ_h M_hh′ times the response of head h.
"""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped

import tplimits as tp

HEADS, TOKENS = 2, 3
γ, τ0, K = 0.7, 0.8, 1.0
MIXTURE = np.array([[0.5, -1.25], [0.75, 1.5]])
DISTANCE = -np.abs(np.subtract.outer(np.arange(TOKENS), np.arange(TOKENS))) * 1.0
SLOPES = np.array([0.5, 1.5])
CAUSAL = np.where(np.tril(np.ones((TOKENS, TOKENS))) > 0, 0.0, -40.0)


def heads(logits_of, bias=None):
    """Shaped attention with heads; `logits_of` maps the logits of all heads, `bias` is added to them."""

    @tp.block
    def block(
        x: tp.State["token"],
        WQ: tp.Matrix["k", "n", "head"],
        WK: tp.Matrix["k", "n", "head"],
        WV: tp.Matrix["k", "n", "head"],
        WO: tp.Matrix["n", "k", "head"],
        *,
        γ,
        τ0,
    ):
        v = WV @ x
        values = v.rename(token="key")
        Y = logits_of(shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0))
        if bias is None:
            A, A0 = tp.softmax(Y, over="key"), 1 / tp.size("key")
        else:
            added = bias()
            A, A0 = tp.softmax(Y + added, over="key"), tp.softmax(added, over="key")
        o = v + tp.sum((A - A0) * values, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * tp.sum(WO @ o, over="head") / tp.sqrt(tp.size("head"))

    return block


def mixed(Y):
    mixture = tp.constant(MIXTURE, axes=("out", "head"))
    return tp.sum(mixture * Y, over="head").rename(out="head")


def scaled(Y):
    return tp.constant(SLOPES, axes=("head",)) * Y


def slopes():
    distance, causal = (tp.constant(a, axes=("token", "key")) for a in (DISTANCE, CAUSAL))
    return tp.constant(SLOPES, axes=("head",)) * distance + causal


FULL = [np.zeros((TOKENS, TOKENS))] * HEADS
CASES = {
    "talking heads": (heads(mixed), MIXTURE, FULL),
    "scales": (heads(scaled), np.diag(SLOPES), FULL),
    "slopes": (heads(lambda Y: Y, slopes), np.eye(HEADS), [s * DISTANCE + CAUSAL for s in SLOPES]),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    block, mixture, biases = CASES[request.param]
    sde = tp.derive(block, tp.Proportional())
    weights = [np.exp(b) for b in biases]
    return sde, mixture, [w / w.sum(axis=1, keepdims=True) for w in weights]


def response(V, p):
    """J with dV = γ²/τ0 · J[R], for R = L G Lᵀ: the columns over entries of G."""
    m, L = len(V), np.linalg.cholesky(V)
    a, b = np.triu_indices(m)
    columns = []
    for i in range(m):
        for j in range(m):
            R = np.outer(L[:, i], L[:, j])
            E = p * R - p * (p * R).sum(axis=1, keepdims=True)
            columns.append((E @ V + V @ E.T)[a, b])
    return np.array(columns).T


def expected(V, mixture, masks_):
    drift = np.mean([(mixture[h] ** 2).sum() * published.numpy_masked_attention(V, p, γ, τ0)[0]
                     for h, p in enumerate(masks_)], axis=0)  # fmt: skip
    isotropic = γ**2 * (2 - γ**2 + γ**2 / (HEADS * K))
    noise = isotropic * published.packed(published.numpy_sigma_lin(V))
    for k in range(HEADS):
        J = γ**2 / τ0 / HEADS * sum(mixture[h, k] * response(V, p) for h, p in enumerate(masks_))
        noise = noise + J @ J.T
    return drift, noise


def test_drift_and_diffusion(case):
    sde, mixture, p = case
    V = published.random_covariance(TOKENS, 2)
    drift, noise = expected(V, mixture, p)
    assert np.abs(sde.drift_at(V, γ=γ, τ0=τ0) - drift).max() < 1e-12 * np.abs(drift).max()
    assert np.abs(sde.diffusion_at(V, γ=γ, τ0=τ0) - noise).max() < 1e-12 * np.abs(noise).max()
    swapped, _ = expected(V, mixture[::-1] * [[1], [2]], p)
    assert np.abs(sde.drift_at(V, γ=γ, τ0=τ0) - swapped).max() > 1e-3


def test_a_step_has_this_drift_and_noise(case):
    """The structured root: one response a head, or one in all where heads are multiples of one another."""
    sde, mixture, p = case
    assert sde.root is not None and 1 <= len(sde.root.responses) <= HEADS
    V = published.random_covariance(TOKENS, 2)
    drift, noise = expected(V, mixture, p)
    h, a, b = 1e-3, *np.triu_indices(TOKENS)
    for method in ("psd", "euler"):
        moved = sde.simulate(V, T=h, dt=h, paths=60_000, method=method, γ=γ, τ0=τ0).V - V
        z = moved.mean(axis=0) / h - drift
        assert (np.abs(z) < 5 * moved.std(axis=0) / h / np.sqrt(len(moved))).all()
        found = np.cov(moved[:, a, b].T) / h
        size = np.sqrt(np.outer(np.diag(noise), np.diag(noise)))
        assert (np.abs(found - noise) < 0.05 * size).all()


def test_they_are_printed(case):
    sde, _, _ = case
    for shown in (repr(sde), sde.latex()):
        assert not any(label in shown for label in ("P|", "S|"))
    assert "no structured root" not in repr(sde)
    assert sde.drift.free_symbols


def test_another_number_of_tokens():
    sde = tp.derive(heads(scaled), tp.Proportional())
    assert sde.drift_at(np.eye(5), γ=γ, τ0=τ0).shape == (5, 5)  # arrays of heads say nothing of tokens


def test_heads_as_many_as_tokens():
    """A (2, 2) array on head axes at two tokens."""
    sde = tp.derive(heads(mixed), tp.Proportional())
    V = published.random_covariance(2, 2)
    full = [np.full((2, 2), 0.5)] * HEADS
    drift, noise = expected(V, MIXTURE, full)
    assert np.abs(sde.drift_at(V, γ=γ, τ0=τ0) - drift).max() < 1e-12
    assert np.abs(sde.diffusion_at(V, γ=γ, τ0=τ0) - noise).max() < 1e-12


@pytest.mark.parametrize("tokens", [2, 5])
def test_the_largest_logits_are_those_of_the_steepest_head(tokens):
    """max s_h √(V_αα V_ββ)/(τ0 √n), whatever the number of tokens beside that of heads."""
    V = np.diag([4.0] + [1.0] * (tokens - 1))
    found = tp.derive(heads(scaled), tp.Proportional()).spread_at(V, n=100, γ=γ, τ0=τ0)
    (spread,) = [s for key, s in found.items() if "exp" in key]
    assert spread == pytest.approx(SLOPES.max() * 4 / (10 * τ0)) and spread.shape == ()


def test_spreads_under_slopes_of_heads():
    sde = tp.derive(heads(lambda Y: Y, slopes), tp.Proportional())
    V = published.random_covariance(TOKENS, 2)
    found = sde.spread_at(V, n=100, γ=γ, τ0=τ0)
    (spread,) = [s for key, s in found.items() if "exp" in key]
    assert spread == pytest.approx(np.diag(V).max() / (10 * τ0))
    # a sum of exponentials over its mean, p = softmax(slopes): n times the variance is V_αα (p V pᵀ)_αα/τ0²
    p = [np.exp(s * DISTANCE + CAUSAL) for s in SLOPES]
    p = [e / e.sum(axis=1, keepdims=True) for e in p]
    (spread,) = [s for key, s in found.items() if "power -1" in key]
    wanted = np.sqrt(max((np.diag(V) * np.diag(q @ V @ q.T)).max() for q in p)) / (10 * τ0)
    assert spread == pytest.approx(wanted, rel=1e-9)
    with pytest.raises(tp.EvaluationError, match="V is for 2 tokens"):
        sde.spread_at(np.eye(2), n=100, γ=γ, τ0=τ0)
