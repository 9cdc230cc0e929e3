"""Moments at arrays of covariances and of parameters."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy

from tplimits.regimes.kernels.derivation.leaves import Moment
from tplimits.regimes.kernels.numbers.tables.moment import evaluated_moment

x, y, p, q = sympy.symbols("x y p q", real=True)
TANH, SLOPE = sympy.tanh, lambda a: 1 - sympy.tanh(a) ** 2


def moment(integrand, variables, parameters):
    covariances = sympy.symbols(f"c:{len(variables) * (len(variables) + 1) // 2}")
    return Moment(integrand, variables, covariances, parameters, sympy.symbols(f"v:{len(parameters)}"))


def test_a_parameter_that_scales_a_variable_may_have_any_number_of_values():
    """Each value had been a function of its own, 4096 the most; numbers are those of integrals by mpmath."""
    values = np.concatenate([[0.0, -1.3, 1e-3, 1e-40], np.random.default_rng(0).normal(size=5000)])
    found, error = evaluated_moment(moment(x * TANH(p * x), (x,), (p,)), [np.array(0.7)], [values[1:3]], {})
    many, _ = evaluated_moment(moment(p * TANH(p * x) * x, (x,), (p,)), [np.array(0.7)], [values[4:]], {})

    def truth(v):
        return mpmath.quad(lambda z: z * mpmath.tanh(v * z) * mpmath.npdf(z, 0, mpmath.sqrt(0.7)), [-12, 0, 12])

    assert error < 1e-12
    assert found == pytest.approx([float(truth(v)) for v in values[1:3]], rel=1e-12, abs=0)
    assert many[:4] == pytest.approx([float(v * truth(v)) for v in values[4:8]], rel=1e-12, abs=0)
    # beside those that leave the range of products, and 0, by which nothing is divided
    small, _ = evaluated_moment(moment(x * TANH(p * x), (x,), (p,)), [np.array(0.7)], [values[:4]], {})
    assert small == pytest.approx([*(float(truth(v)) for v in values[:3]), 0.7e-40], rel=1e-12, abs=0)


def test_a_pair_with_a_parameter_each_beside_nodes():
    """z₁ z₂ sech²(p z₂) sech²(q z₁) at parameters of either sign, beside a tensor of Gauss–Hermite nodes."""
    integrand, (c11, c12, c22) = x * y * SLOPE(p * y) * SLOPE(q * x), (0.8, 0.3, 0.5)
    ps, qs = np.array([[0.4], [-0.9]]), np.array([0.6, -0.2, 1.0])
    found, _ = evaluated_moment(moment(integrand, (x, y), (p, q)), [np.array(c) for c in (c11, c12, c22)], [ps, qs], {})
    z, w = np.polynomial.hermite_e.hermegauss(150)
    g = np.sqrt(c11) * z[:, None]
    h = c12 / np.sqrt(c11) * z[:, None] + np.sqrt(c22 - c12**2 / c11) * z
    weights = np.outer(w, w) / (2 * np.pi)
    truth = [[(weights * g * h / np.cosh(a * h) ** 2 / np.cosh(b * g) ** 2).sum() for b in qs] for a in ps[:, 0]]
    assert found == pytest.approx(np.array(truth), rel=1e-9, abs=0)


def test_a_parameter_that_is_no_scale_is_taken_value_by_value():
    integrand = moment(TANH(p + x) * TANH(p * x), (x,), (p,))
    found, _ = evaluated_moment(integrand, [np.array(0.7)], [np.array([0.3, -1.1])], {})
    for value, v in zip(found, (0.3, -1.1), strict=True):
        truth = mpmath.quad(
            lambda z, v=v: mpmath.tanh(v + z) * mpmath.tanh(v * z) * mpmath.npdf(z, 0, mpmath.sqrt(0.7)), [-12, 0, 12]
        )
        assert value == pytest.approx(float(truth), rel=1e-12, abs=0)
