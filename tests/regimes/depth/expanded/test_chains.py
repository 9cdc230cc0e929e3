"""Layers with norms against paths of the SDE: chains with the law of n × n weights, from small matrices alone."""

from __future__ import annotations

import normed
import numpy as np
import pytest
import shaped
from scipy.stats import norm

import tplimits as tp

pytestmark = pytest.mark.long

N = 40
#: chains with norms before the branch, which the twin is told from, and behind the sum
DRAWS = {"before": 20000, "behind": 6000}
#: γ², ρ at the start, T, and τ0 where there is attention
RELU = ((0.25, 0.5, 0.5), (0.5, 0.8, 0.4))
ATTENTION = ((0.35, 0.6, 0.8, 0.8), (0.25, 0.7, 1.0, 0.6))
#: eight means of correlations are compared
LIMIT = norm.isf(1e-3 / 16)


def wishart(rng, draws, dof):
    T = np.zeros((draws, 2, 2))
    T[:, 0, 0], T[:, 1, 1] = np.sqrt(rng.chisquare(dof, draws)), np.sqrt(rng.chisquare(dof - 1, draws))
    T[:, 1, 0] = rng.standard_normal(draws)
    return T @ T.transpose(0, 2, 1)


def root(V):
    L = np.zeros_like(V)
    L[:, 0, 0] = np.sqrt(V[:, 0, 0])
    L[:, 1, 0] = V[:, 0, 1] / L[:, 0, 0]
    L[:, 1, 1] = np.sqrt(V[:, 1, 1] - L[:, 1, 0] ** 2)
    return L


def correlations(V):
    d = np.sqrt(np.diagonal(V, axis1=1, axis2=2))
    return V / (d[:, :, None] * d[:, None, :])


def relu(L, rng, τ0=None):
    """A root of the Gram matrix of a shaped ReLU with slopes 1 and 1 − 1/√n, divided by its mean square."""
    below = 1 - N**-0.5
    h = L @ rng.standard_normal((len(L), 2, N), dtype=np.float32)
    φ = np.where(h > 0, h, below * h)
    return root(φ @ φ.transpose(0, 2, 1) / N * 2 / (1 + below**2))


def attended(L, rng, τ0):
    """A L with shaped attention A, n_k = n."""
    keys = L @ root(wishart(rng, len(L), N))
    Y = L @ rng.standard_normal((len(L), 2, 2)) @ keys.transpose(0, 2, 1)
    weights = np.exp(Y / (τ0 * N))
    return (np.eye(2) + weights / weights.sum(axis=2, keepdims=True) - 0.5) @ L


def chain(branch, place, γ2, ρ, T, τ0=1.0):
    """Correlations after T n layers, with norms before the branch or behind the sum."""
    rng, draws = np.random.default_rng(0), DRAWS[place]
    V = np.broadcast_to([[1.0, ρ], [ρ, 1.0]], (draws, 2, 2))
    for _ in range(round(T * N)):
        L = root(V)
        F = branch(root(correlations(V)) if place == "before" else L, rng, τ0)
        B = np.sqrt(1 - γ2) * L + np.sqrt(γ2 / N) * F @ rng.standard_normal((draws, 2, 2))
        V = B @ B.transpose(0, 2, 1) + γ2 / N * F @ wishart(rng, draws, N - 2) @ F.transpose(0, 2, 1)
        if place == "behind":
            V = correlations(V)
    return correlations(V)[:, 0, 1]


def by_hand(plain, λ2, **constants):
    """Drift and noise of ρ from b and Σ of the block without norms, and D²π of two tokens, on a grid of ρ.

    Behind the sum, and for the twin without the factor, λ² = 0.
    """
    ρ = np.sin(np.linspace(-1, 1, 801) * np.pi / 2)[1:-1]
    V = np.stack([np.stack([ρ**0, ρ], axis=1), np.stack([ρ, ρ**0], axis=1)], axis=1)
    b, C = plain.drift_at(V, **constants), plain.diffusion_at(V, **constants)
    curved = (2 * λ2 + 3) * ρ / (4 * (1 + λ2)) * (C[:, 0, 0] + C[:, 2, 2])
    curved += (2 * λ2 + 1) * ρ / (2 * (1 + λ2)) * C[:, 0, 2] - C[:, 1, 0] - C[:, 1, 2]
    drift = b[:, 0, 1] - ρ / 2 * (b[:, 0, 0] + b[:, 1, 1]) + curved / 2
    D = np.stack([-ρ / 2, ρ**0, -ρ / 2], axis=1)
    return ρ, drift, np.sqrt(np.einsum("ij,ijk,ik->i", D, C, D))


def ends(grid, start, T, paths=40000, steps=50):
    """Steps of Euler."""
    (points, drift, spread), rng = grid, np.random.default_rng(1)
    ρ, h = np.full(paths, start), T / steps
    for _ in range(steps):
        noise = np.interp(ρ, points, spread) * rng.standard_normal(paths)
        ρ = np.clip(ρ + h * np.interp(ρ, points, drift) + np.sqrt(h) * noise, -1, 1)
    return ρ


def apart(one, other):
    """|z| between the means of two samples."""
    return abs(one.mean() - other.mean()) / np.hypot(one.std() / len(one) ** 0.5, other.std() / len(other) ** 0.5)


CASES = [
    *((relu, shaped.relu_resnet, s[:3], {"γ": s[0] ** 0.5, "c_plus": 0.0, "c_minus": -1.0}) for s in RELU),
    *((attended, shaped.shaped_attention, s, {"γ": s[0] ** 0.5, "τ0": s[3]}) for s in ATTENTION),
]


@pytest.mark.sampling
@pytest.mark.parametrize(("branch", "block", "settings", "constants"), CASES)
def test_layers_with_norms_have_the_law_of_the_sde(branch, block, settings, constants):
    """The factor (1 + 2λ²)/(1 + λ²) of norms before the branch is seen: without it the paths are others."""
    plain, (γ2, ρ, T) = tp.derive(block, tp.Proportional()), settings[:3]
    laws = {place: by_hand(plain, λ2, **constants) for place, λ2 in (("before", 1 - γ2), ("behind", 0.0))}
    paths = {place: ends(law, ρ, T) for place, law in laws.items()}
    before, behind = (chain(branch, place, *settings) for place in laws)
    assert apart(before, paths["before"]) < LIMIT < apart(before, paths["behind"])
    assert apart(behind, paths["behind"]) < LIMIT


@pytest.mark.parametrize(("place", "λ2"), [("before", 0.65), ("behind", 0.0)])
def test_the_coefficients_are_those_of_the_paths(place, λ2):
    """Of attention; those of a shaped ReLU have a formula (test_manifold)."""
    constants = {"γ": 0.35**0.5, "τ0": 0.8}
    points, drift, spread = by_hand(tp.derive(shaped.shaped_attention, tp.Proportional()), λ2, **constants)
    sde = tp.derive({"before": normed.attention_before, "behind": normed.attention_behind}[place], tp.Proportional())
    V = np.array([[1.0, points[500]], [points[500], 1.0]])
    assert sde.drift_at(V, **constants)[0, 1] == pytest.approx(drift[500], abs=1e-10)
    assert sde.diffusion_at(V, **constants)[1, 1] == pytest.approx(spread[500] ** 2, abs=1e-10)


def test_paths_are_those_of_the_coefficients():
    γ2, ρ, T, τ0 = ATTENTION[0]
    constants = {"γ": γ2**0.5, "τ0": τ0}
    sde = tp.derive(normed.attention_before, tp.Proportional())
    paths = sde.simulate([[2.0, 2 * ρ], [2 * ρ, 2.0]], T=T, dt=0.02, paths=20000, halve=True, record=5, **constants)
    plain = tp.derive(shaped.shaped_attention, tp.Proportional())
    same, other = (ends(by_hand(plain, λ2, **constants), ρ, T) for λ2 in (1 - γ2, 0.0))
    found = paths.halved.correlation(0, 1)
    assert apart(found, same) < 3 < 4 < apart(found, other)
    assert abs(found.std() - same.std()) < 0.01 and paths.clipped.mean() < 1e-3
    np.testing.assert_allclose(paths.V[:, 0, 0], 1.0, atol=1e-12)
    assert paths.history.shape == (20000, 9, 2, 2)
    np.testing.assert_allclose(paths.history[:, 0, 0, 1], ρ, atol=1e-9)
    again = sde.simulate([[1.0, ρ], [ρ, 1.0]], T=T, dt=0.02, paths=100, halve=True, **constants)
    np.testing.assert_allclose(again.V, paths.V[:100], atol=1e-9)


@pytest.mark.sampling
def test_check():
    """One layer against its own coefficients, then many layers against paths; the twin has no factor."""
    γ2, ρ, _, τ0 = ATTENTION[0]
    sde = tp.derive(normed.attention_before, tp.Proportional())
    asked = {"V0": [[1.0, ρ], [ρ, 1.0]], "γ": γ2**0.5, "τ0": τ0, "progress": False, "level": 1e-3}
    few = {"widths": (24, 48, 96), "draws": (600, 400, 300)}
    assert tp.check(sde, **asked, **few).accepted
    b, _ = sde.layer_at(asked["V0"], γ=γ2**0.5, τ0=τ0)
    assert not tp.check(sde, **asked, **few, claims={"drift": b - 0.3 * γ2 * np.array([[0, 1], [1, 0]])}).accepted
    deep = {"widths": (16, 32), "draws": 1500, "layers": 16, "paths": 4096, "dt": 0.05}
    verdict = tp.check(sde, **asked, **deep)
    assert verdict.accepted and not any("V[" in row.claim.label for row in verdict.rows)
