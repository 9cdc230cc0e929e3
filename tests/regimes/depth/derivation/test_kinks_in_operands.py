"""Functions of scalars with a kink inside of what a matrix multiplies: U @ (h + x sgn(avg(h x))/√n).

What they depend on, h = W x, stands beside them in the operand, and counts there as it does in the next state itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from bent import V

import tplimits as tp

γ = 0.6
D = np.diag(V)
ρ2 = V**2 / np.outer(D, D)
ARCSINE = 2 / np.pi * np.arcsin(ρ2)


def residual(branch):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, T: tp.Matrix, *, γ):
        return tp.sqrt(1 - γ**2) * x + γ * branch(x, W @ x, U, T)

    return tp.derive(block, tp.Proportional())


def sign(scalar):
    return tp.sign(scalar) / tp.sqrt(tp.n)


def variance(h, x):
    return tp.avg(h * h) - tp.avg(x * x)


@pytest.mark.parametrize(
    "branch",
    [
        lambda x, h, U, T: U @ (h + x * sign(tp.avg(h * x))),
        lambda x, h, U, T: T @ (U @ (h + x * sign(tp.avg(h * x)))),
        lambda x, h, U, T: T @ (U @ h + (U @ x) * sign(tp.avg(h * x))),
    ],
    ids=["inside", "inside of two", "between"],
)
def test_a_sign_beside_what_it_depends_on(branch):
    """E √n avg(h_α x_β) sgn(R_β) = √(2/π) V_αβ, and the correlation of R_α and R_β is ρ²."""
    both = 2 * np.sqrt(2 / np.pi) * V
    found = residual(branch).drift_at(V, γ=γ)
    np.testing.assert_allclose(found, γ**2 * (both + V * ARCSINE), rtol=1e-12)
    assert np.abs(found - γ**2 * V * ARCSINE).max() > 0.5  # without what they have in common


@pytest.mark.parametrize(
    "branch",
    [
        lambda x, h, U, T: (U @ h) * (1 + sign(variance(h, x))),
        lambda x, h, U, T: U @ (h * (1 + sign(variance(h, x)))),
    ],
    ids=["outside", "inside"],
)
def test_a_sign_of_the_size_of_what_it_multiplies(branch):
    """R = √n (avg h² − V) has variance 2V² and third cumulant 8V³/√n."""
    sde = residual(branch)
    slope = 4 / np.sqrt(np.pi)
    np.testing.assert_allclose(sde.drift_at(V, γ=γ), γ**2 * V * (slope * 2 / 3 + ARCSINE), rtol=1e-12)
    # n Var of the diagonal: |U s|² given s, x·U s, and avg s² = V + (R + 2V sgn R)/√n
    diagonal = [0, 3, 5]
    wanted = D**2 * (4 * (1 - γ**2) * γ**2 + γ**4 * (8 + 8 / np.sqrt(np.pi)))
    found = np.diag(sde.diffusion_at(V, γ=γ))[diagonal]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert (np.abs(found - D**2 * (4 * (1 - γ**2) * γ**2 + γ**4 * 8)) > 0.2 * wanted).all()


def turned(h, x):
    return h + x * sign(tp.avg(h * x))


BOTH = 2 * np.sqrt(2 / np.pi) * V


@pytest.mark.long
@pytest.mark.parametrize(
    ("branch", "parts"),
    [
        (lambda x, h, U, T: U @ turned(h, x) + x * sign(tp.avg((U @ h) * x)), 2 * BOTH + 2 * V * ARCSINE),
        (lambda x, h, U, T: T @ (U @ turned(h, x) + x * sign(tp.avg((U @ h) * x))), 2 * BOTH + 2 * V * ARCSINE),
        (lambda x, h, U, T: (U @ turned(h, x)) * (1 + sign(tp.avg((U @ h) * h))), BOTH + 2 * V * ARCSINE),
        (lambda x, h, U, T: U @ turned(h, x) + (T @ x) * sign(tp.avg((T @ (U @ h)) * x)), BOTH + 2 * V * ARCSINE),
    ],
    ids=["beside", "beside and inside", "an even product", "deeper"],
)
def test_a_matrix_before_one_kink_and_inside_of_another(branch, parts):
    """√n avg((U h) x) has variance V² as avg(h x), and √(2/π) in common with U @ turned(h)."""
    found = residual(branch).drift_at(V, γ=γ)
    np.testing.assert_allclose(found, γ**2 * parts, rtol=1e-12)


@pytest.mark.long
def test_the_argument_of_a_kink_that_reads_what_another_turns():
    """o = U (h (1 + sgn R/√n)): of o (1 + sgn(avg(o x))/√n) the state keeps √(2/π) V beside the two arcsines."""

    def branch(x, h, U, T):
        o = U @ (h * (1 + sign(variance(h, x))))
        return o * (1 + sign(tp.avg(o * x)))

    slope = 4 / np.sqrt(np.pi) * 2 / 3
    wanted = γ**2 * V * (slope + 2 * ARCSINE) + γ * np.sqrt(1 - γ**2) * BOTH
    np.testing.assert_allclose(residual(branch).drift_at(V, γ=γ), wanted, rtol=1e-12)


def together(rng, *vectors):
    """One matrix times several vectors: Gaussian, with their Gram as covariance."""
    every = np.concatenate(vectors, axis=1)
    values, basis = np.linalg.eigh(every @ every.transpose(0, 2, 1) / every.shape[2])
    root = basis * np.sqrt(np.clip(values, 0, None))[:, None]
    return np.split(root @ rng.standard_normal(every.shape), len(vectors), axis=1)


@pytest.mark.long
def test_noise_of_a_matrix_before_one_kink_and_inside_of_another():
    """n Var V′ over draws: at n = 300 it is some two in a hundred above its limit."""
    rng, n, draws = np.random.default_rng(7), 300, 12000
    x = np.linalg.cholesky(V) @ np.linalg.qr(rng.standard_normal((n, 3)))[0].T * np.sqrt(n)
    found = []
    for _ in range(draws // 2000):
        x_ = np.broadcast_to(x, (2000, 3, n))
        (h,) = together(rng, x_)
        s = h + x * np.sign((h * x).mean(axis=2, keepdims=True)) / np.sqrt(n)
        o, bare = together(rng, s, h)
        more = (bare * bare).mean(axis=2, keepdims=True) - D[:, None]
        new = np.sqrt(1 - γ**2) * x + γ * o * (1 + np.sign(more) / np.sqrt(n))
        found.append(new @ new.transpose(0, 2, 1) / n)
    spread = n * np.concatenate(found).var(axis=0)[np.triu_indices(3)]
    sde = residual(lambda x, h, U, T: (U @ turned(h, x)) * (1 + sign(variance(U @ h, x))))
    wanted = np.diag(sde.diffusion_at(V, γ=γ))
    np.testing.assert_allclose(spread, wanted, rtol=0.07)
    alone = np.diag(residual(lambda x, h, U, T: U @ turned(h, x)).diffusion_at(V, γ=γ))
    assert (np.abs(alone / wanted - 1) > 0.3).any()


def test_a_layer_of_real_neurons():
    """γ² n (avg s sᵀ − V), s = h + x sgn(avg h x)/√n, over draws at n = 300; the first order of avg h h left out."""
    rng, n, draws = np.random.default_rng(3), 300, 4000
    x = np.linalg.cholesky(V) @ np.linalg.qr(rng.standard_normal((n, 3)))[0].T * np.sqrt(n)
    h = np.einsum("ab,dbi->dai", np.linalg.cholesky(V), rng.standard_normal((draws, 3, n)))
    turned = np.sign((h * x).mean(axis=2))[:, :, None] * x / np.sqrt(n)
    s = h + turned
    found = γ**2 * (np.einsum("dai,dbi->dab", s, s) - np.einsum("dai,dbi->dab", h, h))
    error = found.std(axis=0) / np.sqrt(draws)
    drift = residual(lambda x, h, U, T: U @ (h + x * sign(tp.avg(h * x)))).drift_at(V, γ=γ)
    assert (np.abs(found.mean(axis=0) - drift) < 4 * error).all()
    assert (np.abs(found.mean(axis=0) - γ**2 * V * ARCSINE) > 8 * error).any()
