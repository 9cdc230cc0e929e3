"""Kernels of vectors that do not see the data: means over a law whose covariances are numbers."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tplimits as tp

X = np.array([[0.3, 0.8], [-0.5, 0.7]])
SHIFTED = tp.init(mean=0.5, std=1)


def second_moment(f, variance):
    """E f(z)² for z ~ N(0, variance)."""
    density = mpmath.sqrt(2 * mpmath.pi * variance)
    return float(mpmath.quad(lambda z: f(z) ** 2 * mpmath.exp(-(z**2) / (2 * variance)) / density, [-15, 0, 15]))


@tp.network
def bias(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Vector):
    return v * tp.tanh(b) + v * tp.sum(U * ξ, over="d")


@tp.network
def image(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Vector = SHIFTED):
    h = W @ b
    return v * h * tp.tanh(h) + v * tp.sum(U * ξ, over="d")


@pytest.mark.parametrize(
    ("network", "function", "variance"),
    [(bias, mpmath.tanh, 1), (image, lambda z: z * mpmath.tanh(z), mpmath.mpf(5) / 4)],
)
def test_the_mean_of_a_fixed_law_is_one_number(network, function, variance):
    kernels = tp.derive(network, tp.Kernels())
    nngp = X @ X.T + second_moment(function, variance)
    np.testing.assert_allclose(kernels.evaluate(X).nngp, nngp, rtol=1e-7)
    networks = {"X1": X, "widths": (16, 32, 64, 128), "draws": (1600, 800, 400, 200), "seed": 7}
    assert tp.check(kernels, progress=False, **networks).accepted
    assert not tp.check(kernels, progress=False, claims={"nngp": X @ X.T}, **networks).accepted


@pytest.mark.parametrize("function", [tp.relu, tp.tanh])
def test_many_inputs_of_a_network_that_reads_none(function):
    """A compiled plan without anything to read ended in a ValueError, or divided by its time."""

    @tp.network
    def net(ξ: tp.Input["d"], b: tp.Vector, W: tp.Matrix, v: tp.Vector):
        return v * function(W @ tp.cos(b))

    limit = tp.derive(net, tp.Kernels())
    few, many = (limit.evaluate(np.ones((size, 2))) for size in (2, 192))
    assert many.nngp == pytest.approx(np.full((192, 192), few.nngp[0, 1]), rel=1e-12)
    assert many.ntk == pytest.approx(np.full((192, 192), few.ntk[0, 1]), rel=1e-12)


@pytest.mark.parametrize("inputs", [2, 40])
def test_a_kernel_of_weights_and_their_products_holds_places_of_both(inputs):
    """E U_i U_j ξ_j = (δ_ij + ¼) ξ_j sees one input, and places of both vectors: −.4 had been printed for .11.

    Of h = Σ U ξ, of which a token is the mean, h − ½ h has K = ¼ (ξ·ξ′ + ¼ Σξ Σξ′) and Θ = K + ¼ ξ·ξ′.
    """

    @tp.network
    def net(ξ: tp.Input["token", "d"], v: tp.Vector, U: tp.Vector["d"] = SHIFTED):
        product = U * ξ
        h = tp.sum(product, over="d")
        mean = tp.mean(h, over="token")
        half = 0.5 * mean
        rest = mean - half
        return v * rest

    ξ = np.random.default_rng(3).normal(size=(inputs, 2, 3))
    gram, sums = (m := ξ.mean(axis=1)) @ m.T, m.sum(axis=1)
    found = tp.derive(net.bind(token=2), tp.Kernels()).evaluate(ξ)
    nngp = (gram + np.outer(sums, sums) / 4) / 4
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.ntk, nngp + gram / 4, rtol=1e-9, atol=1e-12)
