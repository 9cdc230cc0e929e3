"""Averages over the neurons of the state inside of what a matrix multiplies: U @ (h + (h² − avg(x²))/√n)."""

from __future__ import annotations

import numpy as np
import pytest
from bent import V

import tplimits as tp

γ = 0.6
#: V_αα V_ββ
DIAGONALS = np.outer(np.diag(V), np.diag(V))


def residual(branch):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, T: tp.Matrix, *, γ):
        return tp.sqrt(1 - γ**2) * x + γ * branch(x, W @ x, U, T)

    return tp.derive(block, tp.Proportional())


def squares(c):
    """E (h_α² − c V_αα)(h_β² − c V_ββ) γ²."""
    return γ**2 * ((1 - c) ** 2 * DIAGONALS + 2 * V**2)


@pytest.mark.parametrize("c", [0, 1, 2, 3])
def test_subtracted_from_squares(c):
    sde = residual(lambda x, h, U, T: U @ (h + (h**2 - c * tp.avg(x * x)) / tp.sqrt(tp.n)))
    np.testing.assert_allclose(sde.drift_at(V, γ=γ), squares(c), rtol=1e-12)
    twin = squares(0 if c % 2 else 1)
    assert np.abs(sde.drift_at(V, γ=γ) - twin).max() > 0.1 or c == 2  # c = 0 and 2 have one drift


def test_alone_beside_a_layer():
    sde = residual(lambda x, h, U, T: U @ (h + tp.avg(x * x) / tp.sqrt(tp.n)))
    np.testing.assert_allclose(sde.drift_at(V, γ=γ), γ**2 * DIAGONALS, rtol=1e-12)


def test_of_order_one_over_n():
    """n E[V′ − V] of h (1 + V_αα/n) is γ² (V_αα + V_ββ) V_αβ."""
    sde = residual(lambda x, h, U, T: U @ (h * (1 + tp.avg(x * x) / tp.n)))
    d = np.diag(V)
    np.testing.assert_allclose(sde.drift_at(V, γ=γ), γ**2 * V * (d[:, None] + d), rtol=1e-12)


@pytest.mark.parametrize(
    "branch",
    [lambda h, s, U: (U @ h) * s, lambda h, s, U: U @ (h * s)],
    ids=["outside", "inside"],
)
def test_a_matrix_may_stand_on_either_side(branch):
    """h s, s = 1 + avg(h²) − avg(x²): n Cov(s, s′) = 2 V², n E (avg h h′ − V)(s + s′) = 2 V (V_αα + V_ββ)."""
    sde = residual(lambda x, h, U, T: branch(h, 1 + tp.avg(h * h) - tp.avg(x * x), U))
    d = np.diag(V)
    np.testing.assert_allclose(sde.drift_at(V, γ=γ), γ**2 * (2 * V * (d[:, None] + d) + 2 * V**3), rtol=1e-12)


def test_a_layer_of_real_neurons():
    """n E[V′ − V] given W, over 4000 draws of W at n = 400: γ² (s sᵀ − X Xᵀ) in the mean over U."""
    rng, n, draws = np.random.default_rng(5), 400, 4000
    root = np.linalg.cholesky(V)
    h = np.einsum("ab,dbi->dai", root, rng.standard_normal((draws, 3, n)))  # W x has the law of L g
    plain = np.einsum("dai,dbi->dab", h, h) / n
    found = []
    for c in (1, 0):
        s = h + (h**2 - c * np.diag(V)[:, None]) / np.sqrt(n)
        found.append(γ**2 * n * (np.einsum("dai,dbi->dab", s, s) / n - plain))
    error = found[0].std(axis=0) / np.sqrt(draws)
    sde = residual(lambda x, h, U, T: U @ (h + (h**2 - tp.avg(x * x)) / tp.sqrt(tp.n)))
    drift = sde.drift_at(V, γ=γ)
    assert (np.abs(found[0].mean(axis=0) - drift) < 4 * error).all()
    assert (np.abs(found[1].mean(axis=0) - drift) > 8 * error).any()  # what is left without the average


def attention(x, q, k, values):
    A = tp.softmax(tp.avg(q * k.rename(token="key")), over="key")
    return tp.sum(A * values.rename(token="key"), over="key")


def test_a_sum_over_tokens_that_a_matrix_sees_alike():
    """Attention of attention: W y is the same for all tokens, and a sum over them is m times it; it was one."""

    @tp.block
    def twice(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, R: tp.Matrix, L: tp.Matrix, W: tp.Matrix):
        y = attention(x, Q @ x, K @ x, x)
        return x + attention(y, R @ y, L @ y, W @ y) / tp.sqrt(tp.n)

    b = tp.derive(twice, tp.Proportional()).drift_at(V)
    np.testing.assert_allclose(b, np.full((3, 3), V.mean()), rtol=1e-12)

    rng, n, found = np.random.default_rng(3), 300, []

    def attended(x, values):
        Q, K = rng.standard_normal((2, n, n)) / np.sqrt(n)
        A = np.exp((x @ Q.T) @ (x @ K.T).T / n)
        return (A / A.sum(1, keepdims=True)) @ values

    for _ in range(60):
        x = np.linalg.cholesky(V) @ rng.standard_normal((3, n))
        x = np.linalg.cholesky(V) @ np.linalg.inv(np.linalg.cholesky(x @ x.T / n)) @ x
        y = attended(x, x)
        branch = attended(y, y @ rng.standard_normal((n, n)) / np.sqrt(n))
        found.append(branch @ branch.T / n)  # what is added to V, but for products with x of mean zero
    mean, error = np.mean(found, 0), np.std(found, 0) / np.sqrt(len(found))
    assert (np.abs(mean - b) < 4 * error + 3 / n).all()
    assert (np.abs(mean - b / 9) > 4 * error + 3 / n).all()
