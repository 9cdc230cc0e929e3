"""The recursion of V and G for any activation: published cases symbolically, others against numbers."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.kernels.first_order.formulas import (
    FACTOR,
    FIRST,
    MEAN,
    SECOND,
    SHIFT,
    VERTEX,
    E,
    formulas,
    step,
)
from tplimits.regimes.kernels.first_order.perceptron import H


def power(k, variance):
    """E h^k."""
    return 0 if k % 2 else sympy.factorial2(k - 1) * variance ** (k // 2)


def layer(found, factor, before, mean, variance):
    """K, V and G of a layer from V and G below; `mean(f, Σ)` is E f(h)."""
    V, G = before
    swap = lambda e: e.subs(FACTOR, factor).replace(E, lambda f: mean(f, variance))  # noqa: E731 - thrice
    K = swap(found.mean)
    names = {FIRST: swap(found.first), SECOND: swap(found.second), MEAN: K, VERTEX: V, SHIFT: G}
    return K, swap(found.vertex).subs(names), swap(found.shift).subs(names)


@pytest.mark.parametrize(("share", "square", "slope"), [(1, 1, 2), (sympy.Rational(1, 2), 2, 5)])
def test_critical_layers_exactly(share, square, slope):
    """Linear layers, (1 + 2/n)^L − 1, and relu with w² = 2, (1 + 5/n)^L − 1: homogeneous, so E is a share of E h^k."""

    def mean(f, variance):
        return share * sum(c * power(k[0], variance) for k, c in sympy.Poly(f, H).terms())

    K, V, G = sympy.S.One / square, sympy.S.Zero, sympy.S.Zero
    for depth in range(1, 8):
        K, V, G = layer(step(H), sympy.sqrt(square), (V, G), mean, square * K)
        assert square**2 * V == slope * depth  # n Var of w² Avg φ²
        assert (sympy.S.One / square, 0) == (K, G)


def test_three_layers_of_tanh_against_numbers():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, Y: tp.Matrix, v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        return v * tp.tanh(1.2 * (Y @ tp.tanh(1.2 * (W @ x))))

    stated = tp.derive(net, tp.Kernels(order=1)).evaluate(np.array([[1.0, 0.5]]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(90)

    def mean(f, variance):
        values = sympy.lambdify(H, f)(nodes * float(variance) ** 0.5)
        return float(weights @ values) / (2 * np.pi) ** 0.5

    found, V, G, K = step(sympy.tanh(H)), 0.0, 0.0, None
    for _ in range(3):
        K, V, G = layer(found, 1.2, (V, G), mean, 1.25 if K is None else 1.44 * K)
    np.testing.assert_allclose(float(K), stated.nngp[0, 0], rtol=1e-6)
    np.testing.assert_allclose(float(V), stated.nngp_variance[0, 0], rtol=1e-5)
    np.testing.assert_allclose(float(G), stated.nngp_bias[0, 0], rtol=1e-4)
    without = layer(step(sympy.tanh(H)), 1.2, (0.0, G), mean, 1.44 * K)
    assert abs(float(without[1]) / float(V) - 1) > 0.05  # V of the layer below left out


def test_reports_show_the_recursion():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))

    found = tp.derive(net, tp.Kernels(order=1))
    assert "G = D*G' + H*V'/2" in repr(found)
    assert r"\operatorname{E}\left({\varphi}^{4}\right)" in found.latex()
    assert "G = D*G'" not in repr(tp.derive(net, tp.Kernels()))
    assert len(formulas()) == 5
