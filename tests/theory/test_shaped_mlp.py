"""Li, Nica & Roy 2022, The Neural Covariance SDE: shaped MLPs, in the covariance of the post-activations."""

from __future__ import annotations

import numpy as np
import published
import shaped
from sympy import Symbol

import tplimits as tp

PROPORTIONAL = tp.Proportional()


def test_shaped_relu():
    sde = tp.derive(shaped.relu_mlp, PROPORTIONAL)
    assert not sde.drift_form - published.relu_drift()
    assert not sde.diffusion_form - published.SIGMA_LIN


def test_shaped_tanh():
    """φ″²/(4a²)(V^αα V^ββ + V^αβ(2V^αβ − 3)) + φ‴/(2a²) V^αβ(V^αα + V^ββ − 2) with φ = tanh: φ″ = 0, φ‴ = −2."""
    a = Symbol("a", real=True)
    sde = tp.derive(shaped.smooth_mlp, PROPORTIONAL)
    wanted = published.total(
        published.term(-1 / a**2, "αβ αα"), published.term(-1 / a**2, "αβ ββ"), published.term(2 / a**2, "αβ")
    )
    assert not sde.drift_form - wanted
    assert not sde.diffusion_form - published.SIGMA_LIN


def test_shaped_function_with_a_second_derivative():
    """φ(x) = x + x²: φ″ = 2, φ‴ = 0, at s = a√n: V^αα V^ββ + V^αβ(2V^αβ − 3) over a²; the mean is part of the map."""

    @tp.block
    def quadratic(x: tp.State["token"], W: tp.Matrix, *, a):
        s = a * tp.sqrt(tp.n)
        h = W @ x
        return (h + h**2 / s) / tp.sqrt(tp.expect(lambda g: (g + g**2 / s) ** 2))

    a = Symbol("a", real=True)
    sde = tp.derive(quadratic, PROPORTIONAL)
    wanted = published.total(
        published.term(1 / a**2, "αα ββ"), published.term(2 / a**2, "αβ αβ"), published.term(-3 / a**2, "αβ")
    )
    assert not sde.drift_form - wanted
    assert not sde.diffusion_form - published.SIGMA_LIN


def test_numbers():
    sde = tp.derive(shaped.relu_mlp, PROPORTIONAL)
    for size in (2, 3, 5, 8):
        V = published.random_covariance(size, seed=40 + size)
        wanted = published.numpy_relu_drift(V, 0.3, -0.5)
        assert np.abs(sde.drift_at(V, c_plus=0.3, c_minus=-0.5) - wanted).max() <= 1e-12
