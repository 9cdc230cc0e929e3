"""Kernels to order 1/n of an input that is 0: derivatives by its variance are those of a smooth function."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = np.array([[0.0, 0.0], [0.6, 0.7]])
KERNELS = ("nngp", "ntk")
STILL = tp.init(mean=0, std=0)


def layers(f):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * f(1.2 * (W @ f(tp.sum(U * ξ, over="d"))))

    return net


@tp.program
def of_cosines(W: tp.Matrix, e: tp.Vector, f: tp.Vector, v: tp.Vector):
    """Both kernels of `layers(cos)` of 0 and (0.6, 0.7), by gradients; cos 0 = 1 and sin 0 = 0 are written out."""
    x = tp.cos(0.6 * e + 0.7 * f)
    k = 1.2 * (W @ (0 * e + 1)), 1.2 * (W @ x)
    nngp = tp.avg(tp.cos(k[0]) * tp.cos(k[1]))
    return nngp, nngp + 1.44 * tp.avg(x) * tp.avg(v**2 * tp.sin(k[0]) * tp.sin(k[1]))


@tp.network
def still(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    W: tp.Matrix,
    Y: tp.Matrix,
    v: tp.Vector,
    a: tp.Vector = STILL,
    b: tp.Vector = STILL,
):
    x = tp.sin(tp.sum(U * ξ, over="d") + a)
    return v * tp.sin(1.2 * (Y @ tp.sin(1.2 * (W @ x) + b)))


@tp.program
def of_biases(W: tp.Matrix, Y: tp.Matrix, e: tp.Vector, f: tp.Vector, v: tp.Vector):
    """Θ of `still` of 0 and (0.6, 0.7), by gradients: all that 0 has to do with is that of the biases."""
    h = 0.6 * e + 0.7 * f
    k = 1.2 * (W @ tp.sin(h))
    dm = v, v * tp.cos(1.2 * (Y @ tp.sin(k)))
    dk = 1.2 * (Y.T @ dm[0]), 1.2 * (Y.T @ dm[1]) * tp.cos(k)
    dh = 1.2 * (W.T @ dk[0]), 1.2 * (W.T @ dk[1]) * tp.cos(h)
    return tp.avg(dk[0] * dk[1]) + tp.avg(dh[0] * dh[1])


def stated(K, kind, at=(0, 1)):
    return [getattr(K, name)[at] for name in (kind, f"{kind}_bias", f"{kind}_variance")]


def expanded(program):
    found = tp.derive(program, tp.FiniteWidth()).evaluate().values()
    return [[float(e.limit), float(e.bias), float(e.variance)] for e in found]


@pytest.mark.long
def test_an_input_that_is_zero_and_one_that_is_not():
    K = tp.derive(layers(tp.cos), tp.Kernels(order=1)).evaluate(X)
    for wanted, kind in zip(expanded(of_cosines), KERNELS, strict=False):
        np.testing.assert_allclose(stated(K, kind), wanted, rtol=1e-8, atol=1e-12)
    near = tp.derive(layers(tp.cos), tp.Kernels(order=1)).evaluate(X + np.array([[1e-5, 0], [0, 0]]))
    for kind in KERNELS:
        np.testing.assert_allclose(stated(K, kind), stated(near, kind), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(stated(K, kind, (0, 0)), stated(near, kind, (0, 0)), rtol=1e-6, atol=1e-9)


def test_a_network_that_is_zero_there_at_every_width():
    K = tp.derive(layers(tp.sin), tp.Kernels(order=1)).evaluate(X)
    for kind in KERNELS:
        assert not any(stated(K, kind) + stated(K, kind, (0, 0))) and all(stated(K, kind, (1, 1)))


@pytest.mark.long
def test_biases_that_start_at_zero_and_are_trained():
    """All images of 0 are 0 and tell nothing of Wᵀ; those of another input tell what they do."""
    K = tp.derive(still, tp.Kernels(order=1)).evaluate(X)
    wanted, *_ = expanded(of_biases)
    np.testing.assert_allclose(stated(K, "ntk"), wanted, rtol=1e-8, atol=1e-12)
    # Θ of 0 alone is that of two Gaussian matrices: |Yᵀ v|² and |Wᵀ Yᵀ v|²
    w = 1.44
    np.testing.assert_allclose(stated(K, "ntk", (0, 0))[:2], [w + w**2, 0], atol=1e-12)
    np.testing.assert_allclose(stated(K, "ntk", (0, 0))[2], 4 * w**2 + 8 * w**3 + 6 * w**4, rtol=1e-12)
    assert not any(stated(K, "nngp"))


@pytest.mark.parametrize("f", [tp.relu, lambda h: tp.abs(h) + h])
def test_a_kink_has_no_derivatives_there(f):
    limit = tp.derive(layers(f), tp.Kernels(order=1))
    with pytest.raises(tp.EvaluationError, match=r"an input is 0, or its image in some layer, and φ = .* has a kink"):
        limit.evaluate(X)


def test_a_quotient_has_none_either():
    limit = tp.derive(layers(lambda h: tp.tanh(h) / h), tp.Kernels(order=1))
    with pytest.raises(tp.EvaluationError, match="networks divide by 0 there"):
        limit.evaluate(X)
