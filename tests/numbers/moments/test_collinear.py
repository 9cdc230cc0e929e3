"""Nested rules for nearly collinear variables, against Gauss and Hermite and at no variance at all."""

from __future__ import annotations

import numpy
import pytest
import sympy

from tplimits.numbers.moments.collinear import nested
from tplimits.numbers.moments.panels import kinked

x = sympy.Symbol("x", real=True)


def test_without_variance_the_value_at_zero():
    f, h = kinked(sympy.cos(x) + 2, x), kinked(abs(x - 1), x)
    assert nested(f, h, 0.0, 0.0, 0.0, 0.0) == (3.0, 0.0)


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-4, 0.3])
def test_smooth_functions_of_near_collinear_variables(gap):
    """E cos(u) tanh(v + …) by a product rule in independent coordinates; whichever variable is the wider one."""
    f, h = kinked(sympy.cos(x) + x, x), kinked(sympy.tanh(x) + 1, x)
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(90)
    weights /= weights.sum()
    for c11, c22 in ((2.0, 0.5), (0.5, 2.0)):
        c12 = (c11 * c22 * (1 - gap)) ** 0.5
        det = c11 * c22 * gap
        u = c11**0.5 * nodes[:, None] + 0 * nodes
        v = c12 / c11**0.5 * nodes[:, None] + (det / c11) ** 0.5 * nodes
        expected = float(weights @ ((numpy.cos(u) + u) * (numpy.tanh(v) + 1)) @ weights)
        value, error = nested(f, h, c11, c12, c22, det)
        assert value == pytest.approx(expected, abs=1e-7) and error < 1e-9
