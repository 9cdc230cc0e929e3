"""Draws of random logits with white numbers that are exactly white: means of products of two logits are their law."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

RNG = np.random.default_rng(7)
X, X2 = RNG.standard_normal((2, 2, 3)), RNG.standard_normal((3, 2, 3))
#: at least as many as there are numbers in one draw
MANY = 400


class White:
    """Draws whose second moments are those of independent standard normals, without an error."""

    def standard_normal(self, shape):
        *one, many = shape
        assert np.prod(one) <= many
        return np.sqrt(many) * np.eye(int(np.prod(one)), many).reshape(shape)


def attention(scores):
    """Heads that are linear in their logits: kernels are means of products of two of them."""

    @tp.network
    def heads(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        Q: tp.Matrix["k", "n", "head"],
        K: tp.Matrix["k", "n", "head"],
        V: tp.Matrix["m", "n", "head"],
        O: tp.Matrix["n", "m", "head"],  # noqa: E741
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        f = tp.sum(scores(x, Q, K) * (V @ x).rename(token="key"), over="key")
        return v * tp.sum(O @ f, over="head") / tp.sqrt(tp.size("head"))

    return heads


def logits(x, y, Q, K):
    return tp.avg((Q @ x) * (K @ y).rename(token="key")) * tp.sqrt(tp.width("k"))


def alone(x, Q, K):
    return logits(x, x, Q, K)


def correlated(x, Q, K):
    """Two fluctuations with the same matrices are drawn together."""
    return logits(x, x, Q, K) - 2 * logits(x, tp.relu(x), Q, K)


@pytest.fixture(params=[alone, correlated])
def limits(request):
    """Kernels of infinitely many heads, which are known without draws, and those given the logits of one."""
    net = attention(request.param)
    return tp.derive(net, tp.Kernels(infinite=("head",))), tp.derive(net.bind(head=1), tp.Kernels())


@pytest.mark.parametrize("inputs", [(X,), (X2, X)], ids=["one set", "two sets"])
def test_means_over_white_draws_are_the_kernels(inputs, limits, monkeypatch):
    monkeypatch.setattr(np.random, "default_rng", lambda *_: White())
    exact, drawn = limits[0].evaluate(*inputs), limits[1].sample(*inputs, draws=MANY)
    for kernel in ("nngp", "ntk"):
        wanted = getattr(exact, kernel)
        np.testing.assert_allclose(getattr(drawn, kernel).mean(axis=0), wanted, atol=1e-10 * np.abs(wanted).max())


def test_the_kernel_of_linear_heads():
    """κ_ac Σ_bd κ_bd² for κ = ξ ξ′ᵀ, as Cov(G_ab, G′_cd) = κ_ac κ_bd and the values have the law κ_bd."""
    κ = np.einsum("iad,jcd->ijac", X, X2)
    wanted = κ * (κ**2).sum(axis=(2, 3), keepdims=True)
    found = tp.derive(attention(alone), tp.Kernels(infinite=("head",))).evaluate(X, X2).nngp
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
