"""Poles that cancel between terms of a tangent stay in one mean, whatever multiplies them; kinks at settled scalars."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.5, -0.3], [0.2, -0.8, 0.9]])
C = X @ X.T
#: nodes of two independent normal variables, none of them zero
_Z, _W = np.polynomial.hermite_e.hermegauss(100)
_PAIR = np.stack(np.meshgrid(_Z, _Z, indexing="ij"))
_DENSITY = np.outer(_W, _W) / (2 * np.pi)


def means(f):
    """E f(h) f(h′) of every pair of inputs, (h, h′) with their covariance."""
    found = np.empty((2, 2))
    for i in (0, 1):
        for j in (0, 1):
            c, b, d = C[i, i], C[i, j], C[j, j]
            h, k = np.sqrt(c) * _PAIR[0], b / np.sqrt(c) * _PAIR[0] + np.sqrt(max(d - b * b / c, 0.0)) * _PAIR[1]
            found[i, j] = (f(h) * f(k) * _DENSITY).sum()
    return found


@tp.network
def beside_an_image(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    h = V @ x
    return v * (W @ x) * tp.tanh(h) / h


@tp.network
def beside_a_sum(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, y: tp.Vector, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    h = V @ x
    return v * (W @ x + y) * (1 - tp.cos(h)) / h**2


def test_a_quotient_beside_an_image():
    """C g: gradients of v, W and U through W, V and U through V; g = tanh(h)/h, slope g′ = sech² h/h − tanh h/h²."""
    found = tp.derive(beside_an_image, tp.Kernels()).evaluate(X)
    g = means(lambda h: np.tanh(h) / h)
    slope = means(lambda h: 1 / (h * np.cosh(h) ** 2) - np.tanh(h) / h**2)
    np.testing.assert_allclose(found.nngp, C * g, atol=1e-8)
    np.testing.assert_allclose(found.ntk, 3 * C * g + 2 * C * slope * C, atol=1e-8)
    assert found.ntk_error < 1e-10
    assert not np.allclose(found.ntk, 3 * C * g, atol=1e-3), "without the slope"


def test_a_quotient_beside_a_sum():
    found = tp.derive(beside_a_sum, tp.Kernels()).evaluate(X)
    g, slope = (
        means(lambda h: (1 - np.cos(h)) / h**2),
        means(lambda h: np.sin(h) / h**2 - 2 * (1 - np.cos(h)) / h**3),
    )
    np.testing.assert_allclose(found.nngp, (C + 1) * g, atol=1e-8)
    np.testing.assert_allclose(found.ntk, (C + 1) * g + (2 * C + 1) * g + 2 * (C + 1) * slope * C, atol=1e-8)
    assert found.ntk_error < 1e-10


@pytest.mark.parametrize("train", [None, ("v",)])
def test_a_maximum_at_a_zero_in_disguise(train):
    """max(x, x + s) = x + relu(s), s → 0: K = C and Θ = 2C; its slope is a step of s alone."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        s = tp.avg(tp.relu(W @ x) ** 2) - tp.avg(x * x) / 2
        return v * tp.maximum(x, x + s)

    found = tp.derive(net, tp.Kernels(train=train)).evaluate(X)
    np.testing.assert_allclose(found.nngp, C, atol=1e-12)
    np.testing.assert_allclose(found.ntk, 2 * C if train is None else C, atol=1e-12)


@tp.network
def of_the_input(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * (tp.tanh(x) - tp.tanh(y)) / (x - y)


@tp.network
def beside_the_input(ξ: tp.Input["d"], U: tp.Vector["d"], x: tp.Vector, y: tp.Vector, v: tp.Vector):
    return v * (tp.sum(U * ξ, over="d") + (tp.tanh(x) - tp.tanh(y)) / (x - y))


@pytest.mark.long
@pytest.mark.parametrize(("net", "train"), [(of_the_input, ("y",)), (beside_the_input, ("U", "x", "y"))])
def test_difference_quotients_of_vectors(net, train):
    """(tanh x − tanh y)/(x − y) = tanh(x − y) (1 − tanh x tanh y)/(x − y): terms of the first have no means each."""
    found = tp.derive(net, tp.Kernels(train=train)).evaluate([[1.0, 0.5]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    length = 1.25 if net is of_the_input else 1.0
    x, y = np.meshgrid(np.sqrt(length) * nodes, nodes, indexing="ij")
    law = np.outer(weights, weights) / weights.sum() ** 2
    apart = np.where(abs(x - y) < 1e-9, 1e-4, x - y)
    quotient = np.tanh(apart) * (1 - np.tanh(y + apart) * np.tanh(y)) / apart
    slope = (quotient - 1 + np.tanh(y) ** 2) / apart
    one, other = (law * quotient**2).sum(), (law * slope**2).sum()
    nngp, ntk = (one, other) if net is of_the_input else (1.25 + one, 1.25 + 2 * other)
    # beside x = y the reference itself is as good as its difference quotient
    np.testing.assert_allclose([found.nngp.item(), found.ntk.item()], [nngp, ntk], rtol=1e-4)


MOVED = tp.init(mean=0.5)


def test_powers_of_sums_beside_poles_of_the_same_sums_are_of_one_variable():
    """(x + e/2)³/((x + e/2)² + b²), its sum written twice, had been a mean over four variables that is not taken."""

    @tp.network
    def subject(ξ: tp.Input["d"], U: tp.Vector["d"], e: tp.Vector, v: tp.Vector, b: tp.Vector = MOVED):
        x = tp.sum(U * ξ, over="d")
        return v * ((x + 0.5 * e) ** 3 / ((x + 0.5 * e) ** 2 + b**2))

    data = np.array([[-1.0, 0.0], [0.1, -0.2]])
    value = tp.derive(subject, tp.Kernels(train=())).evaluate(data).nngp[1, 1]
    # a sum on a grid that keeps off the origin, where the function is of degree 2
    grid = np.arange(-10, 10, 0.01) + 0.005
    spread = np.sqrt(0.05 + 0.25)
    densities = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi) * 0.01
    y, b = spread * grid[:, None], 0.5 + grid[None, :]
    expected = densities @ (y**6 / (y**2 + b**2) ** 2) @ densities
    assert value == pytest.approx(expected, rel=1e-6)
