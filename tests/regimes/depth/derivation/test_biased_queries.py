"""Biases of queries and keys: their noise is that of one vector L g, a structured root beside those of matrices."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

γ, τ0 = 0.6, 0.9
NUMBERS = {"γ": γ, "τ0": τ0}
V = np.array([[1.0, 0.2, 0.1], [0.2, 1.2, -0.3], [0.1, -0.3, 0.8]])
PAIRS = np.triu_indices(3)


def block_of(queries, keys):
    @tp.block
    def block(
        x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, bq: tp.Vector, bk: tp.Vector, *, γ, τ0
    ):
        v = WV @ x
        values = v.rename(token="key")
        Y = tp.avg((WQ @ x + queries * bq) * (WK @ x + keys * bk).rename(token="key")) / τ0
        attended = tp.sum(tp.softmax(Y, over="key") * values, over="key") - tp.mean(values, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * (v + attended)

    return block


def columns(V, queries):
    """dV of each normal: isotropic noise, that of x W Wᵀ x and that of queries·b Wᵀ x; the bias of keys has none."""
    m, L = len(V), np.linalg.cholesky(V)
    centred = np.eye(m) - 1 / m

    def moved(R):
        half = γ**2 / (τ0 * m) * np.broadcast_to(R, (m, m)) @ centred @ V
        return half + half.T

    found = []
    for i in range(m):
        for j in range(m):
            G = np.zeros((m, m))
            G[i, j] = 1.0
            found += [np.sqrt(γ**2 * (2 - γ**2) / 2) * L @ (G + G.T) @ L.T, moved(L @ G @ L.T)]
        found.append(moved(queries * L[:, i]))
    return np.array(found)


@pytest.mark.parametrize("queries, keys", [(1, 0), (0, 1), (1, 1), (0.5, 2)])
def test_noise_and_its_root(queries, keys):
    sde = tp.derive(block_of(queries, keys), tp.Proportional())
    J = columns(V, queries)[:, PAIRS[0], PAIRS[1]]
    np.testing.assert_allclose(sde.diffusion_at(V, **NUMBERS), J.T @ J, atol=1e-13)
    wrong = columns(V, 2 * queries + 1)[:, PAIRS[0], PAIRS[1]]
    assert np.abs(wrong.T @ wrong - J.T @ J).max() > 0.01
    assert sde.root is not None
    assert ("with R = Lg" in str(sde)) == (queries != 0)


@pytest.mark.parametrize("method", ["psd", "euler"])
def test_one_step(method):
    """The covariance of V after one step of 10⁻⁴ over as many paths as tell it to 4 %."""
    sde = tp.derive(block_of(2, 1), tp.Proportional())
    dt = 1e-4
    paths = sde.simulate(V, T=dt, dt=dt, paths=40000, seed=0, method=method, **NUMBERS)
    moved = (paths.V - V)[:, PAIRS[0], PAIRS[1]] / np.sqrt(dt)
    J, without = (columns(V, q)[:, PAIRS[0], PAIRS[1]] for q in (2, 0))
    found, wanted = moved.T @ moved / len(moved), J.T @ J
    size = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    assert np.abs((found - wanted) / size).max() < 0.04 < np.abs((without.T @ without - wanted) / size).max()


def test_gradients_take_the_same_root():
    """The covariance of (V, C, D) after one step is the noise of two sequences."""
    tangent = tp.derive(block_of(2, 1), tp.Proportional(tangent=True))
    V0, E, dt = V[:2, :2], np.array([[0.9, 0.3], [0.3, 0.7]]), 1e-4
    paths = tangent.simulate(V0, E, T=dt, dt=dt, paths=20000, seed=0, **NUMBERS)
    start = np.block([[V0, np.zeros((2, 2))], [np.zeros((2, 2)), E]])
    pairs = np.triu_indices(4)
    joint = np.block([[paths.V, paths.C], [np.swapaxes(paths.C, 1, 2), paths.D]])
    moved = (joint - start)[:, pairs[0], pairs[1]] / np.sqrt(dt)
    wanted = tangent.diffusion_at(V0, np.zeros((2, 2)), E, **NUMBERS)
    size = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    assert np.abs((moved.T @ moved / len(moved) - wanted) / size).max() < 0.04
    plain = tp.derive(block_of(0, 1), tp.Proportional(tangent=True)).diffusion_at(V0, np.zeros((2, 2)), E, **NUMBERS)
    assert np.abs((plain - wanted) / size).max() > 0.1
