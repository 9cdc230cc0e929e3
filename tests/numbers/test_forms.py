"""Integrands over linear forms: the same function, and powers beside a pole read off one form."""

from __future__ import annotations

import numpy
import pytest
import sympy
from sympy import tanh

from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.numbers.forms import _pieces, factors, lower
from tplimits.program.nodes.functions import relu

x, y, c = (sympy.Symbol(name, real=True) for name in "xyc")


@pytest.fixture
def law():
    gaussians = Gaussians()
    for position, symbol in enumerate((x, y)):
        assert gaussians.add(symbol.name, InitialSource(position, ())) == symbol
    return gaussians


def value(integrand, at):
    """body(forms, locals) · Π polynomial variables."""
    known = dict(at)
    for symbol, form in integrand.forms:
        known[symbol] = form.constant.subs(at) + sum(s.subs(at) * at[v] for v, s in form.slope)
    for name, body in integrand.locals:
        known[name] = body.subs(known)
    return float(integrand.body.subs(known)) * numpy.prod([float(at[v]) ** p for v, p in integrand.polynomial])


INTEGRANDS = (
    *(x**2 * y * tanh(x + 2 * y), tanh(x) * relu(x - y + c), x / (x**2 + y**2), x**3 * y**2 / (x**2 + 2 * y**2)),
    *(x**2 / (2 * x + 3 * y) ** 2 * y, sympy.exp(x - c * y) * y, sympy.log(abs(x - 1)) * x, tanh(3 * (x + 1) + y * c)),
    *(x / sympy.sqrt((3 * x + 1) ** 2 + y**2), x * y, sympy.sin(x * y) * x),
)


@pytest.mark.parametrize("expr", INTEGRANDS, ids=str)
def test_an_integrand_is_the_function(law, expr):
    found = lower(expr, [x, y], law)
    for at in ({x: 0.7, y: -0.4, c: 0.3}, {x: -1.3, y: 2.1, c: 0.3}, {x: 0.2, y: 0.9, c: -2.0}):
        assert value(found, at) == pytest.approx(float(expr.subs(at)), rel=1e-12)
    assert found.reads() >= expr.free_symbols & {c}


@pytest.mark.parametrize(
    ("expr", "polynomial"),
    [
        (x / (x**2 + y**2), {}),
        (x**3 * y**2 / (x**2 + 2 * y**2), {}),
        (x * y / (1 + x**2), {x: 1, y: 1}),  # no pole
        (x * y / x**2 * tanh(x), {y: 1}),
        (x**2 / sympy.sqrt(abs(x + y)), {x: 2}),  # of x alone there is no form
    ],
    ids=str,
)
def test_powers_beside_a_pole_are_read_off_its_form(law, expr, polynomial):
    assert dict(lower(expr, [x, y], law).polynomial) == polynomial


def test_a_name_of_a_long_factor_is_computed_once(law):
    name = law.name_long("f", tanh(x + y) * sympy.exp(y))
    found = lower(name * x + sympy.sin(name), [x, y], law)
    assert [entry[0] for entry in found.locals] == [name]
    at = {x: 0.7, y: -0.4}
    inner = float(law.definition(name).subs(at))
    assert value(found, at) == pytest.approx(inner * 0.7 + numpy.sin(inner))


def test_what_kinks_make_of_an_argument_is_found_on_every_side():
    """relu(x − 1) + y and relu(x) − relu(y) on both sides of each kink, in any order."""
    x, y = sympy.symbols("x y", real=True)
    assert set(_pieces(relu(x - 1) + y)) == {y, x + y - 1}
    assert set(_pieces(relu(x) - relu(y))) == {sympy.S.Zero, x, -y, x - y}
    assert _pieces(2 * x) == [2 * x]


@pytest.mark.parametrize(
    ("argument", "cuts"),
    [
        (sympy.erf(x - y) ** 3 * y, [y, x - y]),
        (2 + sympy.cos(x * y), []),
        (1 + sympy.cos(x), [sympy.cos(x) + 1]),  # touches 0
        (sympy.sin(y), [sympy.sin(y)]),
        (c - sympy.tanh(x), [c - sympy.tanh(x)]),
        (-3 - sympy.sin(sympy.tanh(x)), []),
    ],
    ids=str,
)
def test_cuts_are_where_a_sign_may_change(argument, cuts):
    """Straight where a function has the sign of its argument: others are searched for along every line of nodes."""
    assert sorted(factors(argument), key=str) == sorted(cuts, key=str)
