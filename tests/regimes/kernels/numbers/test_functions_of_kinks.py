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
