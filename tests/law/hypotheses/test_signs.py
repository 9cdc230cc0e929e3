"""Points at which functions of Gaussian variables change sign, and factors that stay away from zero there."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Abs, exp, tanh

import tplimits as tp
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses.signs import Signs
from tplimits.program.nodes.functions import minimum

x, y, z = sympy.symbols("x y z", real=True)


@pytest.fixture
def signs():
    gaussians = Gaussians()
    for position, symbol in enumerate((x, y, z)):
        assert gaussians.add(symbol.name, InitialSource(position, ())) == symbol
    return Signs(gaussians)


@pytest.mark.parametrize("f", [x, x - 1, tanh(x) + y / 3, x * y - 1, exp(x) - 2 * exp(y), x**3 - y + z, 1 - x**2])
def test_a_sign_changes_at_a_zero(signs, f):
    point = signs.sign_change(f)
    assert point is not None and set(point) == f.free_symbols
    assert abs(f.xreplace({v: sympy.Float(at, 30) for v, at in point.items()}).evalf()) < 1e-12


def test_what_vanishes_beyond_all_digits_is_a_zero(signs):
    """2 E relu(x b − 1) for b ~ N(½, ¼) where x > 0, of order e^(−2/x²) as x goes to 0, and negative elsewhere."""
    place = sympy.sqrt(2) * (sympy.Rational(1, 2) - 1 / x)
    density = sympy.sqrt(2) * x * exp(sympy.Rational(-1, 2) - 2 / x**2 + 2 / x) / sympy.sqrt(sympy.pi)
    f = (x - 2) * sympy.erf(place) + x - 2 + density
    point = signs.sign_change(f)
    assert 0.01 < point[x] < 0.1 and 0 < f.xreplace({x: sympy.Rational(point[x])}).evalf(10, maxn=2000) < 1e-90


@pytest.mark.parametrize("f", [x**2, exp(x) + y**2, -Abs(x) - 1, tanh(x) ** 2 + 1])
def test_what_has_one_sign_does_not_change_it(signs, f):
    assert signs.sign_change(f) is None
    assert signs.takes_negative(f) == (f == -Abs(x) - 1)


def test_factors_that_may_cancel_a_pole_are_not_nonzero_there(signs):
    point = signs.sign_change(x - 1)
    assert signs.nonzero_at(x, point) and signs.nonzero_at(exp(x) + 1, point) and signs.nonzero_at(2 + x * 0, point)
    assert not signs.nonzero_at(x - 1, point) and not signs.nonzero_at(tanh(x - 1), point)
    assert signs.nonzero_at(y, point) and signs.nonzero_at(x * y, point), "of a variable of its own"
    assert not signs.nonzero_at((x - 1) * y, point)


def test_affine_functions_with_open_constants_change_sign():
    gaussians = Gaussians()
    symbol, constant = gaussians.add("x", InitialSource(0, ())), sympy.Symbol("c", real=True)
    signs = Signs(gaussians)
    assert signs.takes_negative(symbol + constant) and signs.takes_negative(-2 * symbol + constant)
    assert not signs.takes_negative(constant * symbol + 1) and not signs.takes_negative(symbol**2 + constant)


def test_what_is_no_real_number_at_a_point_is_not_seen_there(signs):
    smaller = minimum(y, exp(sympy.sqrt(x)))
    assert not signs.nonzero_at(smaller, {x: -1.0}) and signs.nonzero_at(smaller, {x: 1.0})


@pytest.mark.long
def test_kernels_of_a_minimum_with_a_root():
    """min(e^(√|x|), y) log(1 + |x|) for independent normal x and y: by a grid, fine at the root."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d")
        return v * tp.minimum(tp.exp(tp.sqrt(tp.abs(x))), y) * tp.log(tp.abs(x) + 1)

    found = tp.derive(net, tp.Kernels()).evaluate(np.array([[0.6, 0.8]]))
    # x = r² for both of its signs
    r, y = np.meshgrid((np.arange(1000) + 0.5) * 3e-3, (np.arange(4000) - 1999.5) * 4e-3, indexing="ij")
    mass = 2 * np.exp(-(r**4 + y**2) / 2) / (2 * np.pi) * 2 * r * 3e-3 * 4e-3
    least, log = np.minimum(np.exp(r), y), np.log1p(r**2)
    by_x = np.where(np.exp(r) < y, np.exp(r) / (2 * r), 0) * log + least / (1 + r**2)
    by_y = np.where(y < np.exp(r), log, 0)
    nngp, slopes = (mass * (least * log) ** 2).sum(), (mass * (by_x**2 + by_y**2)).sum()
    for value, error, truth in (
        (found.nngp, found.nngp_error, nngp),
        (found.ntk, found.ntk_error, nngp + slopes),
    ):
        assert abs(value.item() - truth) < 4 * error.item() < 0.02 * truth
        assert abs(value.item() - 1.03 * truth) > 4 * error.item()
