"""Gaussian means from tables of Hermite coefficients, against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy

import tplimits as tp
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


def test_variances_that_rounding_left_below_zero_are_zero():
    """E tanh|u| tanh|u′| at u = 0 is 0, and √c of a c below it no number: a path with a token at 0 goes on."""
    head = sympy.tanh(sympy.Abs(Y))
    A, B = tabulated.tables(moment(head * head.xreplace({Y: Z}), (Y, Z)), "take another way")
    for c11, c22 in ((-1e-18, 0.7), (0.7, -1e-18), (-1e-18, -1e-18), (0.0, 0.7)):
        assert tabulated.pair(A, B, c11, 0.0, c22) == 0.0
    (one,) = tabulated.tables(moment(head, (Y,)), "take another way")
    assert tabulated.single(one, -1e-18) == 0.0


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
    (root,) = tabulated.tables(moment(abs(Y) ** sympy.Rational(13, 10), (Y,)), "take another way")
    assert tabulated.single(root, 1e-12) / tabulated.single(root, 1e-8) == pytest.approx(1e-4**0.65, rel=1e-3)
    assert tabulated.single(root, 0.0) == 0.0
    end = tabulated.highest(A)
    assert 1e6 <= end < 1.2e6 and math.isfinite(tabulated.single(A, 0.999 * end))
    assert math.isnan(tabulated.single(A, 1.001 * end)) and math.isnan(tabulated.single(A, math.nan))
    for low, high in ((1.0, 1.001 * end), (1.001 * end, 1.0), (math.nan, 1.0)):
        assert math.isnan(tabulated.pair(A, A, low, 0.0, high))


V = np.array([[1.0, 0.3], [0.3, 0.8]])


def residual(f, size=1.0, inside=1.0):
    @tp.block
    def block(x: tp.State["token"], M: tp.Matrix, Z: tp.Matrix):
        return x + size * (M @ f(inside * (Z @ x))) / tp.sqrt(tp.n)

    return tp.derive(block, tp.Proportional())


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e-12])
@pytest.mark.parametrize("side", ["all", "one"])
def test_steps_at_small_variances(scale, side):
    """silu(u) is u/2 and tanh|u| is |u| at variances below those of tables, where both had been as at 10⁻⁶."""
    D = np.diag([np.sqrt(scale) if side == "all" else 1.0, np.sqrt(scale)])
    start, h = D @ V @ D, 1e-3
    halves = lambda u: u * tp.sigmoid(u)  # noqa: E731
    for f in (halves, lambda u: tp.tanh(abs(u))):
        sde = residual(f)
        wanted = sde.drift_at(start)
        moved = (sde.simulate(start, T=h, dt=h, paths=1).V[0] - start) / h
        sizes = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        assert (np.abs(moved - wanted) < 2e-4 * sizes + 1e-12 * np.abs(start) / h).all()
    if scale < 1 and side == "all":
        np.testing.assert_allclose(residual(halves).drift_at(start), start / 4, rtol=1e-6)
        np.testing.assert_allclose(np.diag(wanted), np.diag(start), rtol=1e-6)


def test_errors_of_tables_count_with_what_stands_before_them():
    """10 u/(1 + 100 u²) turns within a tenth of u: E f² at V = 1 had been .51 for .535, and a hundredth at 1000 u."""
    hump = lambda u: u / (1 + u * u)  # noqa: E731
    h = 1e-3
    for inside in (10.0, 1000.0):
        sde = residual(hump, np.sqrt(inside), inside)
        nodes = np.linspace(-12, 12, 4_000_001)
        mass = np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi) * (nodes[1] - nodes[0])
        wanted = inside * (hump(inside * nodes) ** 2 * mass).sum()
        assert sde.drift_at(V)[0, 0] == pytest.approx(wanted, rel=1e-6)
        with pytest.raises(tp.EvaluationError, match="tables of it have an error"):
            sde.simulate(V, T=h, dt=h, paths=1)
        dense = sde.simulate(V, T=h, dt=h, paths=1, method="dense")
        assert (dense.V[0, 0, 0] - V[0, 0]) / h == pytest.approx(wanted, rel=1e-6)
    once = residual(hump).simulate(V, T=h, dt=h, paths=1)
    assert np.abs((once.V[0] - V) / h - residual(hump).drift_at(V)).max() < 1e-4


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
