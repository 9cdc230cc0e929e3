"""Points at which functions of Gaussian variables change sign, and factors that stay away from zero there."""

from __future__ import annotations

import pytest
import sympy
from sympy import Abs, exp, tanh

from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses.signs import Signs

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
