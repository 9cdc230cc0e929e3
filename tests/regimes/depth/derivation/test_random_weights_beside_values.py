"""v + Σ F(√n Y) v/√n: functions of order 1 of one logit beside the values that they mix, which add drift and noise."""

from __future__ import annotations

import bent
import numpy as np
import pytest
from bent import V
from scipy import integrate
from scipy.special import erf, expit
from scipy.stats import norm

import tplimits as tp

γ, τ0 = 0.7, 0.8
GIVEN = {"γ": γ, "τ0": τ0, "ratios": {"k": 1.0}}
PAIRS = np.triu_indices(3)
NODES = np.linspace(-9, 9, 181)
MASSES = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
CAUSAL = np.array([[1.0, 0, 0], [2, -1, 0], [0.5, 0.3, 1.5]])


def of_logits(function):
    return bent.attention(lambda Y: function(tp.sqrt(tp.n) * Y) / tp.sqrt(tp.n))


def symmetric(one, other):
    """P^αδ Q^βω and P^αω Q^βδ."""
    found = np.einsum("...ac,...bd->...abcd", one, other)
    return found + found.swapaxes(-1, -2)


def on_pairs(full):
    a, b = PAIRS
    return full[..., a[:, None], b[:, None], a[None], b[None]]


def means(function):
    """κ[ανβκ] = E F(S_αν) F(S_βκ) by equal steps."""
    σ = np.sqrt(np.outer(np.diag(V), np.diag(V))) / τ0
    ρ = np.einsum("ab,cd->acbd", V, V) / τ0**2 / np.einsum("ac,bd->acbd", σ, σ)
    x, y = NODES[:, None], NODES[None, :]
    found = np.empty((3,) * 4)
    for at in np.ndindex(found.shape):
        (a, c, b, d), r = at, min(ρ[at], 1.0)
        there = r * x + np.sqrt(1 - r * r) * y
        values = function(σ[a, c] * x, (a, c)) * function(σ[b, d] * there, (b, d))
        found[at] = MASSES @ values @ MASSES
    return found


CASES = [
    (lambda s: tp.tanh(s), lambda s, at: np.tanh(s)),
    (lambda s: tp.sin(s), lambda s, at: np.sin(s)),
    (lambda s: tp.sigmoid(s) - 0.5, lambda s, at: expit(s) - 0.5),
    (lambda s: s / (1 + s**2), lambda s, at: s / (1 + s**2)),
    (lambda s: tp.erf(s) * tp.constant(CAUSAL, axes=("token", "key")), lambda s, at: erf(s) * CAUSAL[at]),
]


@pytest.mark.parametrize(("weights", "function"), CASES)
def test_drift_and_noise(weights, function):
    sde = tp.derive(of_logits(weights), tp.Proportional())
    κ = means(function)
    assert np.abs(sde.drift_at(V, **GIVEN) - γ**2 * np.einsum("acbd,cd->ab", κ, V)).max() < 1e-5
    moved = np.einsum("acde,bc,ew->abdw", κ, V, V)  # Cov of Σ_ν F_αν V_νβ with that of another pair
    moved = moved + moved.transpose(1, 0, 2, 3)
    moved = moved + moved.transpose(0, 1, 3, 2)
    linear = γ**2 * (2 - γ**2) * symmetric(V, V)
    found = sde.diffusion_at(V, **GIVEN)
    assert np.abs(found - on_pairs(linear + γ**4 * moved)).max() < 1e-4
    assert np.abs(found - on_pairs(linear)).max() > 0.01


def of_networks(n, draws, rng):
    """n E[V′ − V] and n Cov(V′) given queries and keys, those of the values by hand; F and −F are as likely."""
    L, (a, b) = np.linalg.cholesky(V), PAIRS
    q, k = (L @ rng.standard_normal((draws, 3, n)) for _ in range(2))
    F = np.tanh(q @ k.swapaxes(-1, -2) / np.sqrt(n) / τ0) / np.sqrt(n)
    M, turned = ((np.eye(3) + s * F) @ V @ (np.eye(3) + s * F).swapaxes(-1, -2) for s in (1, -1))
    means = ((1 - γ**2) * V + γ**2 * M)[:, a, b]
    given = γ**2 * (1 - γ**2) * (symmetric(V, M) + symmetric(M, V)) + γ**4 * symmetric(M, M)
    apart = means - means.mean(axis=0)
    noise = n * apart[:, :, None] * apart[:, None] + on_pairs(given)
    drift = n * γ**2 * ((M + turned) / 2 - V)
    return [(x.mean(axis=0), x.std(axis=0) / np.sqrt(draws)) for x in (drift, noise)]


def test_one_layer_of_real_weights():
    rng, sde = np.random.default_rng(4), tp.derive(of_logits(tp.tanh), tp.Proportional())
    small, large = (of_networks(n, 20000, rng) for n in (50, 200))
    claims = sde.drift_at(V, **GIVEN), sde.diffusion_at(V, **GIVEN)
    for (x, dx), (y, dy), claim in zip(small, large, claims, strict=True):
        estimate, error = (4 * y - x) / 3, np.hypot(4 * dy, dx) / 3
        assert (np.abs(estimate - claim) < 4.5 * error).all()
        assert (np.abs(estimate - 1.2 * claim) > 4.5 * error).any()


def test_what_does_not_vanish_adds_up():
    with pytest.raises(tp.NoLimitError, match=r"of order n\^\(-1/2\), where κ\[αβ\] = E\[cos"):
        tp.derive(of_logits(tp.cos), tp.Proportional())
    # ½ is the mean of σ, as σ − ½ is odd
    with pytest.raises(tp.NoLimitError, match=r"the term γ\*\*2/2·Σ_ν V\[αν\] .* of order n\^\(-1/2\)"):
        tp.derive(of_logits(tp.sigmoid), tp.Proportional())


def test_heads_are_independent():
    slopes = np.array([0.5, 1.0, -2.0])

    def weights(Y):
        return tp.constant(slopes, axes=("head",)) * tp.tanh(tp.sqrt(tp.n) * Y) / tp.sqrt(tp.n)

    one = tp.derive(of_logits(tp.tanh), tp.Proportional()).drift_at(V, **GIVEN)
    many = tp.derive(bent.heads(weights), tp.Proportional()).drift_at(V, **GIVEN)
    assert np.abs(many - (slopes**2).sum() * one).max() < 1e-6


#: clip(s, −1, 1) in spellings of which none shows that it is odd without a look at its pieces
CLIPPED = {
    "clip": lambda Y, r: tp.clip(r * Y, -1, 1) / r,
    "clip to 1/√n": lambda Y, r: tp.clip(Y, -1 / r, 1 / r),
    "two bends": lambda Y, r: (tp.relu(r * Y + 1) - tp.relu(r * Y - 1) - 1) / r,
}


def mean_of_clipped(m, s):
    """E clip(m + s z, −1, 1)."""
    low, high = (-1 - m) / s, (1 - m) / s
    return norm.sf(high) - norm.cdf(low) + m * (norm.cdf(high) - norm.cdf(low)) + s * (norm.pdf(low) - norm.pdf(high))


def of_clipped(variance, covariance):
    """E clip(S) clip(S′) for equal variances."""
    σ, ρ = np.sqrt(variance), covariance / variance
    if ρ > 1 - 1e-12:
        return integrate.quad(lambda z: np.clip(σ * z, -1, 1) ** 2 * norm.pdf(z), -12, 12, points=(-1 / σ, 1 / σ))[0]

    def inside(z):
        return np.clip(σ * z, -1, 1) * mean_of_clipped(ρ * σ * z, σ * np.sqrt(1 - ρ * ρ)) * norm.pdf(z)

    return integrate.quad(inside, -12, 12, points=(-1 / σ, 1 / σ))[0]


@pytest.mark.parametrize(
    "spelling", ["two bends", *(pytest.param(s, marks=pytest.mark.long) for s in CLIPPED if s != "two bends")]
)
def test_clipped_logits(spelling):
    sde = tp.derive(bent.attention(lambda Y: CLIPPED[spelling](Y, tp.sqrt(tp.n))), tp.Proportional())
    # tokens of one length and one angle: S of α, ν and of β, κ correlate as V_αβ V_νκ, and only two products differ
    state = np.full((3, 3), 0.6) + 0.7 * np.eye(3)
    pairs = np.einsum("ab,cd->acbd", state, state) / τ0**2
    known = {c: of_clipped(1.3**2 / τ0**2, c) for c in np.unique(pairs)}
    κ = np.vectorize(known.__getitem__)(pairs)
    expected = γ**2 * np.einsum("acbd,cd->ab", κ, state)
    assert np.abs(sde.drift_at(state, **GIVEN) - expected).max() < 1e-6


def test_a_clip_with_unequal_ends_has_a_mean():
    with pytest.raises(tp.NoLimitError):
        tp.derive(of_logits(lambda s: tp.clip(s, -1, 2)), tp.Proportional())
