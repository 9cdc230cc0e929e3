"""u = Y + sgn(Z)/√n, two logits of one size of which one has a jump, inside of sums over keys: sgn² of a key is 1.

n·E u_αν u_βκ = V_αβ V_νκ/τ² + (2/π) arcsin(ρ_αβ ρ_νκ) tells all drifts below, by Taylor's series of second order.
"""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

γ, τ = 0.7, 0.8
V = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])
M = len(V)


def logits(x, *pairs):
    return (tp.avg((Q @ x) * (K @ x).rename(token="key")) / τ for Q, K in pairs)


def drift(function):
    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, PQ: tp.Matrix, PK: tp.Matrix, WV: tp.Matrix):
        v = WV @ x
        Y, Z = logits(x, (WQ, WK), (PQ, PK))
        u = Y + tp.sign(Z) / tp.sqrt(tp.n)
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(function(u) * v.rename(token="key"), over="key"))

    return tp.derive(block, tp.Proportional()).drift_at(V)


def second_moments(signs=1.0):
    """n·E u_αν u_βκ."""
    size = np.sqrt(np.diag(V))
    ρ = np.where(np.eye(M) > 0, 1.0, V / np.outer(size, size))
    both = np.einsum("ab,vk->avbk", ρ, ρ)
    return np.einsum("ab,vk->avbk", V, V) / τ**2 + signs * 2 / np.pi * np.arcsin(both)


def of(first, second):
    """γ² (Σ E A_αν V_νκ A_βκ + (E A V)_αβ + its mirror image), of what is linear and what is quadratic in u."""
    moved = second @ V
    return γ**2 * (np.einsum("avbk,vk->ab", first, V) + moved + moved.T)


def expected(name, signs=1.0):
    U = second_moments(signs)
    own = np.einsum("avak->avk", U)
    squares, none = np.einsum("avv->av", own), np.zeros_like(U)
    if name == "mean of squares":
        return of(none, np.broadcast_to(squares.mean(axis=1, keepdims=True), (M, M)))
    if name == "square of the mean":
        return of(none, np.broadcast_to(own.mean(axis=(1, 2))[:, None], (M, M)))
    P = np.eye(M) - 1 / M
    # (1/m)(u_ν − ū), and (1/m)(u_ν²/2 − u_ν ū + ū² − avg(u²)/2)
    linear = np.einsum("avbk,vx,ky->axby", U, P, P) / M**2
    mean = own.mean(axis=(1, 2))[:, None]
    return of(linear, (squares / 2 - own.mean(axis=2) + mean - squares.mean(axis=1, keepdims=True) / 2) / M)


FUNCTIONS = {
    "mean of squares": lambda u: tp.mean(u**2, over="key"),
    "square of the mean": lambda u: tp.mean(u, over="key") ** 2,
    "softmax": lambda u: tp.softmax(u, over="key") - 1 / tp.size("key"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_drift(name):
    """A sum over keys of sgn² had been 1 for the number of keys: 3.523 for 4.438, and .579 for .427 of the softmax."""
    found = drift(FUNCTIONS[name])
    np.testing.assert_allclose(found, expected(name), rtol=1e-10, atol=1e-12)
    assert np.abs(found - expected(name, 1 / 3)).max() > 0.05


@pytest.mark.parametrize("over", ["one key", "mean"])
def test_two_signs_beside_the_logits_that_they_are_of(over):
    """sgn(Y) sgn(Z) Y Z is |Y| |Z|, of mean (2/π) V_αα V_νν/(τ² n): the key of the signs and that of Y Z are one."""

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, PQ: tp.Matrix, PK: tp.Matrix, WV: tp.Matrix):
        v = WV @ x
        Y, Z = logits(x, (WQ, WK), (PQ, PK))
        F = tp.sign(Z) * tp.sign(Y) * Y * Z
        F = tp.mean(F, over="key") if over == "mean" else F
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))

    means = 2 / np.pi * np.outer(np.diag(V), np.diag(V)) / τ**2
    if over == "mean":
        means = np.broadcast_to(means.mean(axis=1, keepdims=True), (M, M))
    found = tp.derive(block, tp.Proportional()).drift_at(V)
    np.testing.assert_allclose(found, of(np.zeros((M,) * 4), means), rtol=1e-12)
    assert np.abs(found - of(np.zeros((M,) * 4), 1.2 * means)).max() > 0.1
