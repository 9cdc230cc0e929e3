"""Blocks that the index algebra has no place for: tied weights, biases, arrays inside of functions, single tokens."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 1.4]])
A, B = np.triu_indices(2)
#: covariances of products of two Gaussian vectors, over the pairs 00, 01, 11
LINEAR = V[A][:, A] * V[B][:, B] + V[A][:, B] * V[B][:, A]
SHIFTS = np.array([0.3, -0.5])


def block(function):
    return tp.derive(tp.block(function), tp.Proportional())


def turned(x: tp.State["token"], W: tp.Matrix, *, γ):
    return tp.sqrt(1 - 2 * γ**2) * x + γ * (W @ x - W.T @ x)


def squared(x: tp.State["token"], W: tp.Matrix, *, g):
    return x + g / tp.sqrt(tp.n) * (W.T @ (W @ x) - x)


def twice(x: tp.State["token"], W: tp.Matrix, *, γ):
    return tp.sqrt(1 - γ**2) * x + γ * (W @ (W @ x))


def biased(x: tp.State["token"], W: tp.Matrix, b: tp.Vector, *, γ):
    return tp.sqrt(1 - γ**2) * x + γ * (W @ x) + b / tp.sqrt(tp.n)


def shifted(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    return x + U @ tp.relu(W @ x + tp.constant(SHIFTS, axes=("token",))) / tp.sqrt(tp.n)


def test_an_antisymmetric_matrix():
    """|(W − Wᵀ) x|² is 2V(1 − 1/n) in the mean; x·(W − Wᵀ)x is 0, so that noise is of order γ⁴ alone."""
    sde = block(turned)
    np.testing.assert_allclose(sde.drift_at(V, γ=0.5), -V / 2, atol=1e-12)
    np.testing.assert_allclose(sde.diffusion_at(V, γ=0.5), 4 * 0.5**4 * LINEAR, atol=1e-12)


def test_a_matrix_and_its_transpose_or_itself():
    """E WᵀW = 1 and E |WᵀW x|² = 2 |x|²; E W² = 1/n, and noise from 2λγ x·W²x and from |W²x|²."""
    sde = block(squared)
    np.testing.assert_allclose(sde.drift_at(V, g=0.8), 0.64 * V, atol=1e-12)
    assert np.abs(sde.diffusion_at(V, g=0.8)).max() < 1e-12
    np.testing.assert_allclose(block(twice).drift_at(V, γ=0.5), 2 * 0.5 * np.sqrt(0.75) * V, atol=1e-12)


def test_biases():
    """b bᵀ/n adds 1 to all entries; E relu(s z + μ)² = (μ² + s²) Φ(μ/s) + μ s φ(μ/s)."""
    sde = block(biased)
    np.testing.assert_allclose(sde.drift_at(V, γ=0.7), np.ones((2, 2)), atol=1e-12)
    np.testing.assert_allclose(sde.diffusion_at(V, γ=0.7), 0.49 * (2 - 0.49) * LINEAR, atol=1e-12)
    s = np.sqrt(np.diag(V))
    t = SHIFTS / s
    wanted = (SHIFTS**2 + s**2) * norm.cdf(t) + SHIFTS * s * norm.pdf(t)
    np.testing.assert_allclose(np.diag(block(shifted).drift_at(V)), wanted, rtol=1e-8)


@pytest.mark.long
@pytest.mark.sampling
def test_networks_beside_them():
    """One layer with real weights, and a wrong twin, in which W and Wᵀ are two matrices."""
    asked = {"V0": V, "widths": (40, 80, 160), "draws": 4000, "seed": 1, "γ": 0.5}
    sde = block(turned)
    assert tp.check(sde, **asked).accepted
    assert not tp.check(sde, claims={"drift": np.zeros((2, 2))}, **asked).accepted


def test_the_first_token_alone():
    """x + W x_0/√n: V_00 is added to every entry."""

    def led(x: tp.State["token"], W: tp.Matrix):
        return x + W @ x.sel(token=0) / tp.sqrt(tp.n)

    np.testing.assert_allclose(block(led).drift_at(2 * V), np.full((2, 2), 2.0), atol=1e-12)


def test_what_has_no_numbers_either():
    def growing(x: tp.State["token"], W: tp.Matrix, *, λ, γ):
        return λ * x + γ * (W.T @ (W @ x))

    def fixed(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, c):
        return U @ tp.relu(c * x + W @ x) / tp.sqrt(tp.n) + x

    def uniform(x: tp.State["token"], W: tp.Matrix, b: tp.Vector.uniform(-1, 1)):
        return x + (W @ x + b) / tp.sqrt(tp.n)

    def infinite(x: tp.State["token"], W: tp.Matrix):
        return x + (W.T @ (W @ x) - x) * tp.expect(lambda g: tp.exp(g**2)) / tp.sqrt(tp.n)

    for function, reason in (
        (growing, "its transpose in one block.* Nor does the block have numbers at λ = 0.45"),
        (fixed, "not closed: "),
        (uniform, "`b` is not the state.* not closed: `b`"),
        (infinite, "tp.expect of .* has no finite mean"),
    ):
        with pytest.raises(tp.NoLimitError, match=reason):
            block(function)


@pytest.mark.parametrize("scale", [1, 1000, 1e6])
@pytest.mark.parametrize("jump", [tp.step, lambda y: tp.where(y, 1, 3)], ids=["step", "where"])
def test_a_scalar_at_its_jump_is_there_at_every_scale(jump, scale):
    """r = ⟨h|tanh h⟩/⟨1|1 − tanh² h⟩ tends to 1: networks take either side, however much r − 1 is multiplied by."""

    def block(shift):
        @tp.block
        def layer(X: tp.State["token"], W: tp.Matrix, U: tp.Matrix, x: tp.Vector):
            h = U @ x
            r = tp.avg(h * tp.tanh(h)) / tp.avg(1 - tp.tanh(h) ** 2)
            return X + jump(scale * (r - shift)) / tp.sqrt(tp.n) * (W @ X)

        return tp.derive(layer, tp.Proportional())

    with pytest.raises(tp.NoLimitError):
        block(1)
    assert block(0.5).drift_at([[1.0]]) == pytest.approx(1.0)
    assert block(1.5).drift_at([[1.0]]) == pytest.approx(float(jump(-1.0) ** 2))
