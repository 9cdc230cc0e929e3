"""Small matrices in compiled loops against NumPy."""

from __future__ import annotations

import numpy as np
import published
import pytest

from tplimits.regimes.depth.numbers import matrices


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_factors(size):
    out, U = np.empty((2, size, size))
    V = published.random_covariance(size, seed=size)
    assert matrices.cholesky(V, 0.0, 1.0, out)
    assert np.allclose(out, np.linalg.cholesky(V), rtol=0, atol=1e-13)
    diagonal = V.copy()
    matrices.eigensystem(diagonal, U)
    assert np.allclose(np.sort(np.diag(diagonal)), np.linalg.eigvalsh(V), rtol=0, atol=1e-13)
    assert np.allclose(U @ np.diag(np.diag(diagonal)) @ U.T, V, rtol=0, atol=1e-12)


def test_the_root_of_a_singular_matrix_is_exact():
    x = np.array([[1.0, 2.0, -1.0]])
    V, B, spare = x.T @ x, np.empty((3, 3)), np.empty((3, 3))
    assert matrices.root(V, B, spare)
    assert np.allclose(B @ B.T, V, rtol=0, atol=1e-14)


def test_negative_eigenvalues_are_dropped_and_told():
    V, B, spare = np.diag([2.0, -1.0, 3.0]), np.empty((3, 3)), np.empty((3, 3))
    V[0, 2] = V[2, 0] = 0.5
    assert not matrices.root(V, B, spare)
    values, vectors = np.linalg.eigh(V)
    assert np.allclose(B @ B.T, (vectors * values.clip(0)) @ vectors.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("low", "high", "outside"), [(0.0, 3.0, False), (0.0, 2.0, True), (0.4, 9.0, False), (0.6, 9.0, True)]
)
def test_eigenvalues_in_an_interval(low, high, outside):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    V = Q @ np.diag([0.5, 1.0, 2.5]) @ Q.T
    assert matrices.is_outside(V, low, high, np.empty((3, 3))) == outside


def test_what_is_not_finite_is_no_covariance():
    V = np.eye(2)
    assert matrices.is_finite(V)
    V[1, 1] = np.inf
    assert not matrices.is_finite(V)
    V[1, 1] = np.nan
    assert not matrices.is_finite(V)
    assert not matrices.cholesky(V, 0.0, 1.0, np.empty((2, 2)))
