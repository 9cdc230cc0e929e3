"""Smooth functions of functions with kinks: what algebra would multiply out for minutes, numbers find at once."""

from __future__ import annotations

import numpy
import pytest
from scipy.special import erf

import tplimits as tp


@tp.network
def clipped(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, w: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    y = tp.clip(x, -1, 0.5)
    return v * y + 0.6 * w * x / (1 + tp.gelu(y) ** 2)


@pytest.mark.long
def test_the_kernel_of_a_quotient_of_clipped_gelu():
    X = numpy.array([[-0.4, -0.8], [-0.5, -0.3]])
    found = tp.derive(clipped, tp.Kernels()).evaluate(X)
    root = numpy.linalg.cholesky(X @ X.T)
    grid = numpy.linspace(-9, 9, 3001)
    density = numpy.exp(-(grid**2) / 2) / numpy.sqrt(2 * numpy.pi) * (grid[1] - grid[0])

    def features(x):
        y = numpy.clip(x, -1, 0.5)
        gelu, slope = (
            y * (1 + erf(y / 2**0.5)) / 2,
            (1 + erf(y / 2**0.5)) / 2 + y * numpy.exp(-(y**2) / 2) / (2 * numpy.pi) ** 0.5,
        )
        inside = (x > -1) & (x < 0.5)
        whole = 1 + gelu**2
        return y, x / whole, inside * 1.0, 1 / whole - x * 2 * gelu * slope * inside / whole**2

    weights = numpy.multiply.outer(density, density)
    u = features(root[0, 0] * grid[:, None] + 0 * grid)
    z = features(root[1, 0] * grid[:, None] + root[1, 1] * grid)
    y, q, dy, dq = ((weights * a * b).sum() for a, b in zip(u, z, strict=True))
    nngp = y + 0.36 * q
    assert found.nngp[0, 1] == pytest.approx(nngp, abs=2e-5), "the grid's own error where it meets kinks"
    assert found.ntk[0, 1] == pytest.approx(nngp + X[0] @ X[1] * (dy + 0.36 * dq), abs=1e-3)


@pytest.mark.parametrize(
    ("written", "same"),
    [
        (lambda y: tp.exp(-tp.abs(y)), lambda y: tp.exp(-y)),
        (lambda y: tp.sign(y) * y**2, lambda y: y**2),
        (lambda y: tp.tanh(tp.relu(y) - 0.3), lambda y: tp.tanh(y - 0.3)),
    ],
)
def test_signs_of_roots_that_are_not_negative_say_nothing(written, same):
    """The root of relu(h) is real, and its absolute value is itself: derivatives in numbers knew neither."""

    def kernels(function):
        @tp.network
        def net(W: tp.Matrix, ξ: tp.Input["d"], v: tp.Vector, U: tp.Vector["d"]):
            return v * (W.T @ function(tp.relu(tp.sum(U * ξ, over="d")) ** 1.5))

        return tp.derive(net, tp.Kernels()).evaluate(numpy.array([[-0.7, -1.1], [0.6, -0.3], [-0.9, 1.2]]))

    found, expected = kernels(written), kernels(same)
    assert found.nngp == pytest.approx(expected.nngp, rel=1e-9)
    assert found.ntk == pytest.approx(expected.ntk, rel=1e-9)
