"""Means over a second neuron of what is a sum of products of functions of one neuron each, however it is written."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.3], [-0.4, 0.9]])


def kernels(written):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * written(x, W @ x)

    return tp.derive(net, tp.Kernels())


def over(function):
    """The mean of a function of (y, y′) over y′."""

    def mean(x, y):
        β = tp.neuron("β")
        return tp.avg(function(y, y[β]), over=β)

    return mean


@pytest.mark.parametrize(
    "function",
    [
        lambda y, z: tp.sin(y + z),
        lambda y, z: tp.sin(y) * tp.cos(z) + tp.cos(y) * tp.sin(z),
        lambda y, z: tp.cos(z) * (tp.sin(y) + tp.tanh(z) * tp.cos(y)),
    ],
)
def test_a_wave_of_a_sum(function):
    """It is sin(y) e^(−q/2), q = ξ·ξ the variance of y′; its kernels are those of the product of two functions."""
    found = kernels(over(function)).evaluate(X)
    c = X @ X.T
    q = np.diag(c)
    nngp = np.exp(-(q[:, None] + q) / 2) * np.exp(-(q[:, None] + q) / 2) * np.sinh(c)  # E sin y sin y′ of the inputs
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-9)
    apart = kernels(lambda x, y: tp.sin(y) * tp.avg(tp.cos(y))).evaluate(X)
    np.testing.assert_allclose(found.ntk, apart.ntk, rtol=1e-9)


def test_an_exponential_of_a_sum():
    """E exp((y + y′)/2) over y′ is exp(y/2 + q/8)."""
    found = kernels(over(lambda y, z: tp.exp((y + z) / 2)))
    c = X @ X.T
    q = np.diag(c)
    nngp = np.exp((q[:, None] + q) / 8) * np.exp((q[:, None] + q + 2 * c) / 8)
    np.testing.assert_allclose(found.evaluate(X).nngp, nngp, rtol=1e-9)


def test_tangents_of_products_of_two_neurons():
    """relu(y′) y′ tanh(y), whose tangent is a sum in brackets: networks agree, and not with half of it."""
    limit = kernels(over(lambda y, z: tp.relu(z) * z * tp.tanh(y)))
    found = limit.evaluate(X)
    apart = kernels(lambda x, y: tp.tanh(y) * tp.avg(tp.relu(y) ** 2)).evaluate(X)
    np.testing.assert_allclose(found.nngp, apart.nngp, rtol=1e-9)
    np.testing.assert_allclose(found.ntk, apart.ntk, rtol=1e-9)
    wrong = {"Θ[0,0]": 0.8 * found.ntk[0, 0]}
    assert tp.check(limit, X1=X, widths=(32, 64, 128), draws=200, seed=0).accepted
    assert not tp.check(limit, X1=X, widths=(32, 64, 128), draws=200, seed=0, claims=wrong).accepted


@pytest.mark.parametrize(
    "function",
    [
        lambda y, z: tp.relu(y * z),
        lambda y, z: tp.tanh(y + z),
        lambda y, z: (tp.sin(y) - tp.sin(z)) / y,  # the mean of sin y′ tends to 0, and does not beside 1/y
    ],
)
def test_what_does_not_separate_is_refused(function):
    with pytest.raises(tp.NoLimitError, match="two neurons inseparably"):
        kernels(over(function))
