"""What moves a covariance, on compiled arrays: second moments from one normal at a time, which are exact."""

from __future__ import annotations

import numpy as np
import published
import pytest

from tplimits.regimes.depth.numbers import moves

M = 4
V = published.random_covariance(M, seed=1)


def second_moments(linear, normals):
    """E[X_ab X_cd] of a matrix that is linear in independent normals."""
    found = [linear(one) for one in np.eye(normals)]
    return np.einsum("kab,kcd->abcd", found, found)


def written(move, *given):
    """What a move writes into its last argument."""
    out = np.full((M, M), np.nan)
    move(*given, out)
    return out


def test_symmetric_noise_is_a_matrix_plus_its_transpose():
    unit = np.eye(M)
    wanted = 2 * 0.3**2 * (np.einsum("ac,bd->abcd", unit, unit) + np.einsum("ad,bc->abcd", unit, unit))
    found = second_moments(lambda g: written(moves.symmetric_noise, g, 0.3), M * (M + 1) // 2)
    np.testing.assert_allclose(found, wanted, atol=1e-15)


def test_triangular_noise_has_the_mean_square_one():
    """S Sᵀ of mean 1 and, at leading order, of the covariance of what is added."""
    scale, many = 0.1, M * (M + 1) // 2
    centre = np.empty(M)
    moves.centres(scale, centre)

    def S(g):
        found = np.zeros((M, M))
        moves.triangular_noise(g, scale, centre, found)
        return found

    still = S(np.zeros(many))
    np.testing.assert_array_equal(still, np.diag(centre))
    moved = second_moments(lambda g: S(g) - still, many)
    np.testing.assert_allclose(still @ still.T + np.einsum("abcb->ac", moved), np.eye(M), atol=1e-15)
    symmetric = second_moments(lambda g: S(g) - still + (S(g) - still).T, many)
    added = second_moments(lambda g: written(moves.symmetric_noise, g, scale), many)
    np.testing.assert_allclose(symmetric, added, atol=1e-15)
    moves.centres(1.0, centre)
    assert not centre.any()


@pytest.mark.parametrize("symmetric", [False, True])
def test_responses_have_the_covariance_of_their_products(symmetric):
    B = np.linalg.cholesky(V)
    spare, other = np.empty((2, M, M))
    found = second_moments(lambda g: _response(B, g, symmetric, spare, other), M * (M + 1) // 2 if symmetric else M * M)
    wanted = np.einsum("ac,bd->abcd", V, V)
    if symmetric:
        wanted = wanted + np.einsum("ad,bc->abcd", V, V)
    np.testing.assert_allclose(found, wanted, atol=1e-13)


def _response(B, g, symmetric, spare, other):
    R = np.empty((M, M))
    moves.response(B, B.T.copy(), 1, g, symmetric, R, spare, other)
    return R


def test_one_step_of_what_is_added_and_of_what_multiplies():
    rng = np.random.default_rng(2)
    D, K, X, S = 0.1 * rng.standard_normal((4, M, M))
    D, K, S = D + D.T, K + K.T, np.eye(M) + np.tril(S)
    for noisy in (False, True):
        B = np.linalg.cholesky(V)
        Bt, spare, other, fresh = B.T.copy(), *np.empty((3, M, M))
        assert moves.add(V, D, K, noisy, B, Bt, spare, other, fresh) == 0
        wanted = V + D + (np.linalg.cholesky(V) @ K @ np.linalg.cholesky(V).T if noisy else 0)
        np.testing.assert_allclose(fresh, wanted, atol=1e-14)
        np.testing.assert_allclose(B @ Bt, wanted, atol=1e-14)
        assert (fresh == fresh.T).all() and (Bt == B.T).all()
        for added, factored in ((False, False), (True, True)):
            B = np.linalg.cholesky(V)
            Bt = B.T.copy()
            assert not moves.multiply_and_add(
                V, D, added, X.copy(), factored, S, noisy, B, Bt, M, spare, other, fresh
            )  # fmt: skip
            root = np.linalg.cholesky(V + D * added) @ (S if noisy else np.eye(M))
            root = (np.eye(M) + X * factored) @ root
            np.testing.assert_allclose(fresh, root @ root.T, atol=1e-14)
            np.testing.assert_allclose(B @ Bt, root @ root.T, atol=1e-14)
    B = np.linalg.cholesky(V)
    assert moves.add(V, -2 * V, K, False, B, B.T.copy(), spare, other, fresh) == 1
    np.testing.assert_allclose(fresh, 0, atol=1e-12)  # no eigenvalue is positive


def test_polar_coordinates_of_two_tokens():
    d, s, N = np.empty(2), np.empty(2), np.full((2, 2), np.nan)
    for angle in (0.0, 0.7, 2.5, np.pi):
        pair = np.array([[4.0, 6 * np.cos(angle)], [6 * np.cos(angle), 9.0]])
        np.testing.assert_allclose(
            moves.polar(pair, 0, 1, 6.0),
            [np.cos(angle), np.sin(angle), angle],
            rtol=0,
            atol=1e-8 if angle > 3 else 1e-14,
        )
        moves.kernels(pair, True, d, s, N)
        np.testing.assert_array_equal([d, s], [[4, 9], [2, 3]])
        folded = 6 * (np.sin(angle) - angle * np.cos(angle))
        np.testing.assert_allclose(N, [[0, folded], [folded, 0]], rtol=0, atol=2e-7 if angle > 3 else 1e-13)
    assert moves.polar(np.zeros((2, 2)), 0, 1, 0.0) == (1.0, 0.0, 0.0)
    assert moves.polar(np.array([[1.0, 1.1], [1.1, 1.0]]), 0, 1, 1.0) == (1.0, 0.0, 0.0)
    assert moves.polar(np.array([[1.0, -1.1], [-1.1, 1.0]]), 0, 1, 1.0) == (-1.0, 0.0, np.pi)
