"""Gaussian means from tables of Hermite coefficients, against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy

from tplimits.numbers.moments.function import moment
from tplimits.regimes.depth.numbers import tabulated

Y, Z = sympy.symbols("y z", real=True)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / math.sqrt(2 * math.pi)


def by_quadrature(f, h, c11, c12, c22):
    """E f(u) h(u′), u′ = (c12/c11) u + rest."""
    u = math.sqrt(c11) * NODES[:, None]
    rest = math.sqrt(max(c22 - c12**2 / c11, 0.0))
    return WEIGHTS @ (f(u) * h(c12 / c11 * u + rest * NODES)) @ WEIGHTS


@pytest.fixture(scope="module")
def tables():
    return tabulated.tables(moment(sympy.tanh(Y) * sympy.atan(Z), (Y, Z)), "take another way")


@pytest.mark.parametrize("c11", [0.03, 0.7, 1.3])
@pytest.mark.parametrize("c22", [0.2, 1.0])
@pytest.mark.parametrize("rho", [-1.0, -0.4, 0.0, 0.7, 1.0])
def test_pairs(tables, c11, c22, rho):
    A, B = tables
    c12 = rho * math.sqrt(c11 * c22)
    wanted = by_quadrature(np.tanh, np.arctan, c11, c12, c22)
    assert tabulated.pair(A, B, c11, c12, c22) == pytest.approx(wanted, abs=1e-5)


def test_means_of_one_and_what_is_outside():
    (A,) = tabulated.tables(moment(sympy.sqrt(1 + Y**2), (Y,)), "take another way")
    for c in (0.0, 1e-9, 1e-3, 0.5, 2.0):
        wanted = WEIGHTS @ np.sqrt(1 + c * NODES**2)
        assert tabulated.single(A, c) == pytest.approx(wanted, abs=2e-6)
    end = tabulated.highest(A)
    assert 1e6 <= end < 1.2e6 and math.isfinite(tabulated.single(A, 0.999 * end))
    assert math.isnan(tabulated.single(A, 1.001 * end)) and math.isnan(tabulated.single(A, math.nan))
    for low, high in ((1.0, 1.001 * end), (1.001 * end, 1.0), (math.nan, 1.0)):
        assert math.isnan(tabulated.pair(A, A, low, 0.0, high))


def test_weights_are_those_of_lagrange():
    """They take polynomials of degree five in log c at six points to their values, and begin at the lowest variance."""
    weights = np.empty(6)
    for c in (1e-3, 0.7, 123.0):
        x = (math.log(c) - math.log(tabulated.LOWEST)) / 0.1
        first = tabulated.place(c, weights)
        assert first == int(x) and weights.sum() == pytest.approx(1)
        at = first - 2 + np.arange(6)  # two rows stand before the lowest
        for degree in range(6):
            assert weights @ ((at - x) ** degree) == pytest.approx(0.0**degree, abs=1e-9)
    assert tabulated.place(0.0, weights) == tabulated.place(tabulated.LOWEST, weights) == 0
