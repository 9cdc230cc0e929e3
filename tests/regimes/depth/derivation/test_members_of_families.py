"""Matrices read by their number from a family are matrices of their own, as if each had its own name."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import roots_hermitenorm

import tplimits as tp

PROPORTIONAL = tp.Proportional()
V = np.array([[1.0, 0.3], [0.3, 0.7]])


def mean_of_tanh(V, a, b):
    """E tanh(u) tanh(u′) at the covariance (a² + b²) V, by Gauss–Hermite."""
    nodes, weights = roots_hermitenorm(80)
    C = np.linalg.cholesky((a * a + b * b) * V)
    u = C[0, 0] * nodes[:, None] + 0 * nodes
    w = C[1, 0] * nodes[:, None] + C[1, 1] * nodes
    found = [np.tanh(s) * np.tanh(t) * weights[:, None] * weights for s, t in ((u, u), (u, w), (w, w))]
    first, mixed, second = (x.sum() / (2 * np.pi) for x in found)
    return np.array([[first, mixed], [mixed, second]])


def dense(bound):
    @tp.block
    def dense(x: tp.State["token"], W: tp.Matrix["n", "n", "part"], U: tp.Matrix):
        u, w = W.sel(part=0) @ x, W.sel(part=1) @ x
        return x + U @ tp.tanh(0.6 * u + 1.1 * w) / tp.sqrt(tp.n)

    return dense.bind(part=2) if bound else dense


@pytest.mark.parametrize("bound", [True, False])
def test_functions_of_several_members(bound):
    found = tp.derive(dense(bound), PROPORTIONAL).drift_at(V)
    assert np.allclose(found, mean_of_tanh(V, 0.6, 1.1), atol=1e-7)
    # as if both parts were one matrix
    assert not np.allclose(found, mean_of_tanh(V, 0.6 + 1.1, 0), atol=1e-2)


@tp.block
def family(x: tp.State["token"], W: tp.Matrix["n", "n", "part"], b: tp.Vector["part"], *, γ):
    moved = 0.6 * (W.sel(part=0) @ x) + 0.8 * (W.sel(part=1) @ x)
    return tp.sqrt(1 - γ**2) * x + γ * moved + (b.sel(part=0) - b.sel(part=1)) / tp.sqrt(tp.n)


@tp.block
def named(x: tp.State["token"], W: tp.Matrix, M: tp.Matrix, b: tp.Vector, c: tp.Vector, *, γ):
    return tp.sqrt(1 - γ**2) * x + γ * (0.6 * (W @ x) + 0.8 * (M @ x)) + (b - c) / tp.sqrt(tp.n)


def test_sums_of_members():
    """The drift by hand is 2 for every pair: two biases of variance 1/n."""
    found, wanted = (tp.derive(block, PROPORTIONAL) for block in (family.bind(part=2), named))
    assert not found.drift_form - wanted.drift_form and not found.diffusion_form - wanted.diffusion_form
    assert np.allclose(found.drift_at(V, γ=0.5), 2)


def rotated(axes):
    angle = np.arange(3)
    a, b = (tp.constant(f(angle), ("token",)) for f in (np.cos, np.sin))
    (q, p), (k, m) = axes
    first = (a * q - b * p), (a * k - b * m).rename(token="key")
    second = (b * q + a * p), (b * k + a * m).rename(token="key")
    return tp.avg(first[0] * first[1]) + tp.avg(second[0] * second[1])


@pytest.mark.long
def test_rotated_queries_and_keys_of_one_family():
    @tp.block
    def of_families(
        x: tp.State["token"], Q: tp.Matrix["n", "n", "half"], K: tp.Matrix["n", "n", "half"], WV: tp.Matrix, *, γ
    ):
        v = WV @ x
        Y = rotated([[W.sel(half=i) @ x for i in range(2)] for W in (Q, K)])
        F = tp.softmax(Y, over="key") - 1 / tp.size("token")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))

    @tp.block
    def of_names(x: tp.State["token"], Q: tp.Matrix, P: tp.Matrix, K: tp.Matrix, L: tp.Matrix, WV: tp.Matrix, *, γ):
        v = WV @ x
        F = tp.softmax(rotated([[Q @ x, P @ x], [K @ x, L @ x]]), over="key") - 1 / tp.size("token")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))

    found, wanted = tp.derive(of_families.bind(half=2), PROPORTIONAL), tp.derive(of_names, PROPORTIONAL)
    assert found.root is not None
    three = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])
    assert np.allclose(found.drift_at(three, γ=0.7), wanted.drift_at(three, γ=0.7))
    assert np.allclose(found.diffusion_at(three, γ=0.7), wanted.diffusion_at(three, γ=0.7))
