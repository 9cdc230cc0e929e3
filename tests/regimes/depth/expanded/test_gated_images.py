"""f(c) W x at each neuron, c a vector that is drawn in the layer: its moments are functions of V, whatever x is."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.4], [0.4, 1.3]])
z, w = np.polynomial.hermite_e.hermegauss(80)
SECOND, FOURTH = ((w @ np.tanh(z) ** k) / w.sum() for k in (2, 4))
SIZE = 0.6 / np.sqrt(SECOND)


@tp.block
def small(x: tp.State["token"], W: tp.Matrix, c: tp.Vector):
    return x + tp.tanh(c) * (W @ x) / tp.sqrt(tp.n)


@tp.block
def large(x: tp.State["token"], W: tp.Matrix, c: tp.Vector):
    return 0.8 * x + SIZE * tp.tanh(c) * (W @ x)


def networks(n, draws, rng, skewed):
    """n Cov of the entries of V′ of `large`, rows of W x drawn as what they are; states of one V, in two shapes."""
    g = rng.standard_normal((n, 2))
    g = g**3 if skewed else g
    x = np.linalg.qr(g)[0] * np.sqrt(n) @ np.linalg.cholesky(V).T
    h = rng.standard_normal((draws, n, 2)) @ np.linalg.cholesky(V).T
    y = 0.8 * x + SIZE * np.tanh(rng.standard_normal((draws, n, 1))) * h
    found = np.einsum("dia,dib->dab", y, y)[:, [0, 0, 1], [0, 1, 1]] / n
    return n * np.cov(found.T), found.mean(axis=0)


def symmetric(P, Q):
    a, b = np.array([0, 0, 1]), np.array([0, 1, 1])
    full = np.einsum("ac,bd->abcd", P, Q)
    full = full + full.swapaxes(2, 3)
    return full[a[:, None], b[:, None], a, b]


def test_a_gate_on_a_small_branch():
    sde = tp.derive(small, tp.Proportional())
    np.testing.assert_allclose(sde.drift_at(V), SECOND * V, rtol=1e-8)
    np.testing.assert_allclose(sde.diffusion_at(V), 0, atol=1e-12)


def test_a_gate_of_order_one():
    """V′ keeps its mean; Cov adds 4-point moments of f(c) W x, which E f⁴ = 3 E f⁴/(E f²)² tells from a Gaussian."""
    sde = tp.derive(large, tp.Proportional())
    np.testing.assert_allclose(sde.drift_at(V), 0, atol=1e-8)
    a, b = np.array([0, 0, 1]), np.array([0, 1, 1])
    flat = V[a, b]
    ratio = FOURTH / SECOND**2
    lin = symmetric(V, V)
    wanted = 2 * 0.64 * 0.36 * lin + 0.36**2 * (ratio * (lin + np.outer(flat, flat)) - np.outer(flat, flat))
    np.testing.assert_allclose(sde.diffusion_at(V), wanted, rtol=1e-7)
    rng = np.random.default_rng(3)
    for skewed in (False, True):
        cov, mean = networks(150, 6000, rng, skewed)
        assert np.abs(cov - wanted).max() < 0.25 and np.abs(mean - flat).max() < 0.02
    assert np.abs(wanted - (1 - 0.64**2) * lin).max() > 0.4  # W x of the same size, without the gate


@pytest.mark.parametrize(
    "read",
    [
        lambda x, h, c: tp.tanh(c) * h + c,
        lambda x, h, c: tp.tanh(c) * tp.relu(h),
        lambda x, h, c: tp.tanh(c) * x,
        lambda x, h, c: tp.tanh(x) * h,
    ],
)
def test_other_functions_of_neurons_are_refused(read):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, c: tp.Vector):
        return x + read(x, W @ x, c) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="not closed"):
        tp.derive(block, tp.Proportional())
