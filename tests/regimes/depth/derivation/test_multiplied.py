"""Constant arrays that undo one another, and numbers that cancel: second moments hold their squares and fourth powers.

The oracle multiplies the doubles as fractions.  With P = … M₂ M₁ over heads, of vectors W_h x the drift is V Σ P², of
logits avg(Q_h x · K x) it is V Σ_ab V_ab² Σ P², and P V Pᵀ over tokens.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.depth.derivation import linear

V2 = np.array([[1.3, 0.4], [0.4, 0.9]])
RNG = np.random.default_rng(3)
SQUARE = RNG.standard_normal((2, 2))
HILBERT = 1 / (np.arange(2)[:, None] + np.arange(2) + 1.0)
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
MASK = np.array([[1.0, 1e8], [1e-8, 1.0]])


def nearly_singular(e):
    return np.array([[1.0, 1.0], [1.0, 1.0 + e]])


def exact(arrays):
    """The product of arrays of doubles, the last outermost."""
    found = np.array([[Fraction(i == j) for j in range(2)] for i in range(2)])
    for array in arrays:
        found = np.vectorize(Fraction)(array) @ found
    return found.astype(float)


def of_heads(arrays, y):
    for a in arrays:
        y = tp.sum(tp.constant(a, axes=("out", "head")) * y, over="head").rename(out="head")
    return y


def of_tokens(arrays, y):
    for a in arrays:
        y = tp.sum(tp.constant(a, axes=("token", "key")) * y.rename(token="key"), over="key")
    return y


def heads(arrays):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix["n", "n", "head"], U: tp.Matrix["n", "n", "head"]):
        return x + tp.sum(U @ of_heads(arrays, W @ x), over="head") / tp.sqrt(tp.n)

    return block


def inside(arrays):
    """One array before an image, the others behind it."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix):
        return x + of_tokens(arrays[1:], W @ of_tokens(arrays[:1], x)) / tp.sqrt(tp.n)

    return block


def outside(arrays):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix):
        return x + of_tokens(arrays, W @ x) / tp.sqrt(tp.n)

    return block


def queries(arrays):
    """One array before an average, the others behind it."""

    @tp.block
    def block(
        x: tp.State["token"],
        WQ: tp.Matrix["n", "n", "head"],
        WK: tp.Matrix,
        WV: tp.Matrix["n", "n", "head"],
        W: tp.Matrix,
    ):
        Y = tp.avg(of_heads(arrays[:1], WQ @ x) * (WK @ x).rename(token="key"))
        return W @ x + tp.sum(of_heads(arrays[1:], Y) * (WV @ x).rename(token="key"), over=("key", "head"))

    return block


BLOCKS = {
    heads: lambda P: V2 * (P**2).sum(),
    queries: lambda P: V2 * (V2**2).sum() * (P**2).sum(),
    inside: lambda P: P @ V2 @ P.T,
    outside: lambda P: P @ V2 @ P.T,
}
ARRAYS = {
    **{f"inverse {e}": (nearly_singular(e), np.linalg.inv(nearly_singular(e))) for e in (1e-3, 1e-6, 1e-8, 1e-10)},
    "three": (nearly_singular(1e-7), HILBERT, np.linalg.inv(HILBERT @ nearly_singular(1e-7))),
    "a third behind": (nearly_singular(1e-6), np.linalg.inv(nearly_singular(1e-6)), SQUARE),
    "and more": (nearly_singular(1e-8), np.linalg.inv(nearly_singular(1e-8)) + SQUARE),
    "whole numbers": (np.array([[1e9 + 1, 1e9], [1.0, 1.0]]), np.array([[1.0, -1e9], [-1.0, 1e9 + 1]])),
    "turned back": (1e8 * TURN, 1e-8 * TURN.T),
    "twice, small between": (
        nearly_singular(1e-9),
        np.linalg.inv(nearly_singular(1e-9)),
        np.diag([-7e-6, 2e-6]),
        1e5 * nearly_singular(1e-7),
        np.linalg.inv(1e5 * nearly_singular(1e-7)),
    ),
    "masks": (MASK, 1e-8 * SQUARE),
    "decimals": (SQUARE, np.full((2, 2), 0.1) + 0.2 - 0.3 + np.eye(2)),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
def test_arrays_that_undo_one_another(block, name):
    P, drift = exact(ARRAYS[name]), BLOCKS[block]
    found = tp.derive(block(ARRAYS[name]), tp.Proportional()).drift_at(V2)
    np.testing.assert_allclose(found, drift(P), rtol=1e-7, atol=1e-7 * np.abs(drift(P)).max())
    assert np.abs(found - drift(P @ np.diag([1.0, 1.01]))).max() > 1e-3 * np.abs(found).max()


@pytest.mark.parametrize("e", [1e-12, 1e-14, 2e-15])
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
def test_what_rounding_of_the_entries_decides_is_refused(block, e):
    with pytest.raises(tp.NoLimitError, match="rounding of their entries in the last digit changes that by"):
        tp.derive(block((nearly_singular(e), np.linalg.inv(nearly_singular(e)))), tp.Proportional())


def test_what_no_part_rests_on_is_not_refused():
    """The first row of B A D is 1 beside 10¹² times the rounding of a zero; of C B A D with C = (0 1) it is gone."""
    A = nearly_singular(1e-7)

    def block(outer):
        return outside((np.diag([1.0, 1e12]), A, np.linalg.inv(A), outer))

    with pytest.raises(tp.NoLimitError, match="rounding of their entries"):
        tp.derive(block(np.diag([1.0, 0.0])), tp.Proportional())
    found = tp.derive(block(np.diag([0.0, 1e-12])), tp.Proportional()).drift_at(V2)
    np.testing.assert_allclose(found, np.diag([0.0, V2[1, 1]]), atol=1e-8)


def test_gradients_take_the_same_product():
    arrays = (nearly_singular(1e-7), np.linalg.inv(nearly_singular(1e-7)))
    found = tp.derive(outside(arrays), tp.Proportional(tangent=True))
    plain = tp.derive(outside((np.eye(2),)), tp.Proportional(tangent=True))
    assert (
        found.start("W") == plain.start("W") != tp.derive(outside((SQUARE,)), tp.Proportional(tangent=True)).start("W")
    )


@pytest.mark.sampling
@pytest.mark.parametrize("n", [30, 90])
def test_networks_have_this_drift(n):
    """n E[V′ − V] of 2000 layers at one X with X Xᵀ/n = V."""
    rng = np.random.default_rng(n)
    A = nearly_singular(1e-6)
    B = np.linalg.inv(A)
    x = np.linalg.qr(rng.standard_normal((n, 2)))[0] @ np.linalg.cholesky(V2).T * np.sqrt(n)
    moved = []
    for _ in range(2000):
        y = np.einsum("gh,hit->git", A, rng.standard_normal((2, n, n)) @ x / np.sqrt(n))
        z = np.einsum("fg,git->it", B, y)
        after = x + z / np.sqrt(n)
        moved.append(after.T @ after - n * V2)
    mean, error = np.mean(moved, axis=0), np.std(moved, axis=0) / np.sqrt(len(moved))

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix["n", "n", "head"]):
        return x + tp.sum(of_heads((A, B), W @ x), over="head") / tp.sqrt(tp.n)

    found = tp.derive(block, tp.Proportional()).drift_at(V2)
    np.testing.assert_allclose(found, 2 * V2, rtol=1e-9)
    assert (np.abs(mean - found) < 4 * error).all() and (np.abs(mean - found / 2) > 4 * error).any()


def limit(f):
    @tp.block
    def block(x: tp.State["token"], M: tp.Matrix, Z: tp.Matrix):
        return f(x, M, Z)

    return tp.derive(block, tp.Proportional())


@pytest.mark.parametrize("c", [1e3, 7e5, 7e9, 7e12])
def test_images_of_nearly_the_same(c):
    """Z(c M x + c x) − Z(c M x + (c − ¼) x) is Z x/4."""
    found = limit(lambda x, M, Z: x + (Z @ (c * (M @ x) + c * x) - Z @ (c * (M @ x) + (c - 0.25) * x)) / tp.sqrt(tp.n))
    np.testing.assert_allclose(found.drift_at(V2), V2 / 16, rtol=1e-12)


def squares(c):
    """x (avg((c M x + x/2)²) − c² avg((M x)²))/n: its drift is (V_αα + V_ββ) V_αβ/4."""
    return limit(
        lambda x, M, Z: (
            x + x * (tp.avg((c * (M @ x) + 0.5 * x) ** 2) - c**2 * tp.avg((M @ x) ** 2)) / tp.n + 0 * (Z @ x)
        )
    )


def test_squares_that_cancel():
    wanted = np.add.outer(np.diag(V2), np.diag(V2)) * V2 / 4
    for c in (7.0, 1e3 / 3, 1e4 / 3):
        np.testing.assert_allclose(squares(c).drift_at(V2), wanted, rtol=1e-7)
    with pytest.raises(tp.NoLimitError, match="too little to be told from rounding"):
        squares(1e7 / 3)


@pytest.mark.parametrize("e", [1e-6, 1e-7])
def test_what_is_not_multiplied_is_no_zero(e, monkeypatch):
    """Second moments written out, as of linear forms that are too long: terms of 1/e² leave 2, which is no rounding."""
    monkeypatch.setattr(linear, "_MOST", 0)
    arrays = (nearly_singular(e), np.linalg.inv(nearly_singular(e)))
    with pytest.raises(tp.NoLimitError, match="sums of numbers in which almost everything cancels"):
        tp.derive(heads(arrays), tp.Proportional())
    orthogonal = tp.derive(heads((1e8 * TURN, 1e-8 * TURN.T)), tp.Proportional())
    np.testing.assert_allclose(orthogonal.drift_at(V2), 2 * V2, rtol=1e-12)
