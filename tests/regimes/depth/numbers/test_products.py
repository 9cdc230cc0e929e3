"""Products in tiles against NumPy, at every remainder that a number of tokens leaves."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest

from tplimits.regimes.depth.numbers import moves, products

SIZES = [*range(1, 26), 32, 37]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lower", [False, True])
def test_products(size, lower):
    A, B = np.random.default_rng(size).standard_normal((2, size, size))
    B = np.tril(B) if lower else B
    framed = np.full((size + 2, size, size), np.nan)  # what is written beyond the matrix would be seen
    products.multiply(A, B, size, 1 if lower else size, framed[1])
    assert np.allclose(framed[1], A @ B, rtol=0, atol=1e-13)
    assert np.isnan(framed[[0, *range(2, size + 2)]]).all()


def in_blocks(A, rows):
    """A with zeros above its diagonal blocks."""
    block = np.arange(len(A)) // rows
    return np.where(block[:, None] >= block, A, 0.0)


@pytest.mark.parametrize("size", SIZES)
def test_what_is_known_to_be_zero_is_left_out(size):
    """The same numbers to the last bit; of factors that are not zero there, others."""
    A, B = np.random.default_rng(size).standard_normal((2, size, size))
    out, whole = np.empty((2, size, size))
    for left, right in itertools.product((1, (size + 1) // 2, size), repeat=2):
        for signed, other in ((right, in_blocks(B, right)), (-right, in_blocks(B, right).T.copy())):
            products.multiply(in_blocks(A, left), other, size, size, whole)
            products.multiply(in_blocks(A, left), other, left, signed, out)
            assert (out == whole).all() and np.allclose(whole, in_blocks(A, left) @ other, rtol=0, atol=1e-13)
    products.multiply(A, B, size, size, whole)
    products.multiply(A, B, 1, 1, out)
    assert size < 5 or not np.allclose(out, whole)


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7, 16])
def test_steps_of_tokens_and_tangents_leave_a_quarter_out(tokens):
    """Steps with matrices (·, 0; ·, ·) told or not: the same numbers to the last bit, also where one is clipped."""
    size = 2 * tokens
    rng = np.random.default_rng(tokens)
    V = np.cov(rng.standard_normal((size, 3 * size)))
    X, S = in_blocks(rng.standard_normal((size, size)), tokens), np.tril(rng.standard_normal((size, size)))
    G = rng.standard_normal(size * size)
    for D in (0.1 * V, -np.linalg.eigvalsh(V).mean() * np.eye(size)):
        ends = []
        for blocks in (tokens, size):
            B = np.linalg.cholesky(V)
            Bt, R, spare, other, fresh = B.T.copy(), *np.empty((4, size, size))
            assert products.diagonal_blocks(B) == tokens
            moves.response(B, Bt, blocks, G, False, R, spare, other)
            cut = moves.multiply_and_add(V, D, True, X.copy(), True, S, True, B, Bt, blocks, spare, other, fresh)
            assert cut == (D[0, 0] < 0) and (cut or products.diagonal_blocks(B) == tokens)
            ends.append((R, B, Bt, fresh))
        assert all((one == two).all() for one, two in zip(*ends, strict=True))


@pytest.mark.parametrize("size", SIZES)
def test_a_product_with_the_transpose_is_exactly_symmetric(size):
    A, out = np.random.default_rng(size).standard_normal((size, size)), np.empty((size, size))
    transposed, copied = np.empty((2, size, size))
    products.transpose(A, transposed)
    products.copy(A, copied)
    assert (transposed == A.T).all() and (copied == A).all()
    products.multiply(A, transposed, size, size, out)
    assert (out == out.T).all() and np.allclose(out, A @ A.T, rtol=0, atol=1e-13)


def test_what_is_not_finite_stays_where_it_is():
    """Tiles that overlap read no entry that is not theirs."""
    A, B, out = np.ones((9, 9)), np.ones((9, 9)), np.empty((9, 9))
    A[4, 2] = np.nan
    B[3, 8] = np.nan
    products.multiply(A, B, 9, 9, out)
    touched = np.zeros((9, 9), dtype=bool)
    touched[4, :] = touched[:, 8] = True
    assert np.array_equal(out, np.where(touched, np.nan, 9.0), equal_nan=True)


@pytest.mark.parametrize("wrong", [np.eye(5).T, np.eye(5, dtype=np.float32), np.eye(10)[::2, ::2]])
def test_other_layouts_are_refused(wrong):
    """Addresses are computed: entries in another order would be taken for others."""
    with pytest.raises(numba.TypingError, match="tiles are of float64 matrices in C order"):
        products.multiply(np.eye(5), wrong, 5, 5, np.empty((5, 5)))
