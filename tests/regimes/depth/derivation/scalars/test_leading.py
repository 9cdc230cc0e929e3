"""What leads in powers of n: high powers of logits, and small functions of logits beside those of order 1."""

from __future__ import annotations

import bent
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 1.5]])


def gaussian_pair(covariance, f, points=16):
    """E f(a) f(b) of two Gaussians."""
    x, w = hermegauss(points)
    (aa, ab), (_, bb) = covariance
    a = np.sqrt(aa) * x[:, None]
    b = ab / aa * a + np.sqrt(max(bb - ab**2 / aa, 0.0)) * x
    return (w[:, None] * w * f(a) * f(b)).sum() / w.sum() ** 2


@pytest.mark.parametrize("power", [5, 7])
def test_odd_powers_of_a_logit_enter_by_their_squares(power):
    sde = tp.derive(bent.plain(lambda Y: tp.n ** ((power - 1) // 2) * Y**power), tp.Proportional())
    expected = np.zeros((2, 2))
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        law = [[V[α, α] * V[ν, ν], V[α, β] * V[ν, κ]], [V[α, β] * V[ν, κ], V[β, β] * V[κ, κ]]]
        expected[α, β] += 0.49 * gaussian_pair(np.array(law) / 0.64, lambda y: y**power) * V[ν, κ]
    np.testing.assert_allclose(sde.drift_at(V, γ=0.7, τ0=0.8), expected, rtol=1e-9)


def on_its_own(weights):
    """x + Σ F v with F a function of two independent logits, of order 1 and of size n^(−1/2)."""

    @tp.block
    def attention(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix, C: tp.Matrix, D: tp.Matrix, WV: tp.Matrix):
        S = tp.sqrt(tp.n) * tp.avg((A @ x) * (B @ x).rename(token="key"))
        Z = tp.avg((C @ x) * (D @ x).rename(token="key"))
        return x + tp.sum(weights(S, Z) * (WV @ x).rename(token="key"), over="key")

    return attention


@pytest.mark.parametrize(
    ("weights", "large"),
    [
        (lambda S, Z: (1 + tp.tanh(S)) * tp.tanh(Z), lambda s: 1 + np.tanh(s)),
        (lambda S, Z: (1 + tp.tanh(S)) * (tp.exp(Z) - 1), lambda s: 1 + np.tanh(s)),
        (lambda S, Z: tp.tanh(S) * Z / (1 + Z**2), np.tanh),
        (lambda S, Z: tp.sin(S + Z) - tp.sin(S), np.cos),
    ],
)
def test_small_functions_beside_those_of_order_one(weights, large):
    sde = tp.derive(on_its_own(weights), tp.Proportional())
    expected = np.zeros((2, 2))
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        small = V[α, β] * V[ν, κ]
        law = [[V[α, α] * V[ν, ν], small], [small, V[β, β] * V[κ, κ]]]
        expected[α, β] += gaussian_pair(law, large, 60) * small * V[ν, κ]
    value, error = sde.drift_estimate_at(V)
    assert sde.verdict.kind == "ODE" and not sde.diffusion_form
    assert (np.abs(value - expected) < 4.5 * error + 1e-5).all() and error.max() < 2e-2 * np.abs(value).max()
