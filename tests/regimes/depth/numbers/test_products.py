"""Products in tiles against NumPy, at every remainder that a number of tokens leaves."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tplimits.regimes.depth.numbers import products

SIZES = [*range(1, 26), 32, 37]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lower", [False, True])
def test_products(size, lower):
    A, B = np.random.default_rng(size).standard_normal((2, size, size))
    B = np.tril(B) if lower else B
    framed = np.full((size + 2, size, size), np.nan)  # what is written beyond the matrix would be seen
    products.multiply(A, B, lower, framed[1])
    assert np.allclose(framed[1], A @ B, rtol=0, atol=1e-13)
    assert np.isnan(framed[[0, *range(2, size + 2)]]).all()


@pytest.mark.parametrize("size", SIZES)
def test_a_product_with_the_transpose_is_exactly_symmetric(size):
    A, out = np.random.default_rng(size).standard_normal((size, size)), np.empty((size, size))
    transposed, copied = np.empty((2, size, size))
    products.transpose(A, transposed)
    products.copy(A, copied)
    assert (transposed == A.T).all() and (copied == A).all()
    products.multiply(A, transposed, False, out)
    assert (out == out.T).all() and np.allclose(out, A @ A.T, rtol=0, atol=1e-13)


def test_what_is_not_finite_stays_where_it_is():
    """Tiles that overlap read no entry that is not theirs."""
    A, B, out = np.ones((9, 9)), np.ones((9, 9)), np.empty((9, 9))
    A[4, 2] = np.nan
    B[3, 8] = np.nan
    products.multiply(A, B, False, out)
    touched = np.zeros((9, 9), dtype=bool)
    touched[4, :] = touched[:, 8] = True
    assert np.array_equal(out, np.where(touched, np.nan, 9.0), equal_nan=True)


@pytest.mark.parametrize("wrong", [np.eye(5).T, np.eye(5, dtype=np.float32), np.eye(10)[::2, ::2]])
def test_other_layouts_are_refused(wrong):
    """Addresses are computed: entries in another order would be taken for others."""
    with pytest.raises(numba.TypingError, match="tiles are of float64 matrices in C order"):
        products.multiply(np.eye(5), wrong, False, np.empty((5, 5)))
