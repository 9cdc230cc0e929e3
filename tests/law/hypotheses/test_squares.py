"""Quadratic polynomials that never change their sign: under roots, in logarithms and divided by."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from scipy.integrate import dblquad
from sympy import Rational, S, oo

import tplimits as tp
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.squares import roots_of_squares, squares

x, y, z = sympy.symbols("x y z", real=True)
RANGES = {
    x**2 + x * y + y**2: (0, oo),
    x**2 - 2 * x + 2: (1, oo),
    3 * x - x**2 - 2: (-oo, Rational(1, 4)),
    x**2 - 2 * x * y + y**2: (0, oo),
    (x + y) ** 2 - x * y + 1: (1, oo),
    x**2 - 3 * x * y + y**2: (-oo, oo),
    x**2 + x * y: (-oo, oo),
    x**2 + 2 * x * y + y**2 + z: (-oo, oo),
    2 * x * y + 2 * y * z + 2 * x * z + x**2 + y**2 + z**2: (0, oo),
    2 * x * y + 2 * y * z - 2 * x * z + x**2 + y**2 + z**2: (-oo, oo),
}


@pytest.mark.parametrize("form", RANGES, ids=str)
def test_ranges(form):
    """A saddle is told from a bowl, whatever the order of the variables; no point lies outside."""
    low, high = RANGES[form]
    assert bounds(form) == (low, high)
    values = sympy.lambdify((x, y, z), form)(*np.random.default_rng(0).normal(0, 3, (3, 4000)))
    assert np.all(values >= float(low) - 1e-9) and np.all(values <= float(high) + 1e-9)


def test_the_squares_add_up():
    for form in (f for f in RANGES if squares(f)):
        terms, rest = squares(form)
        assert sympy.expand(sum(d * f**2 for d, f in terms) + rest - form) == 0
    # irrational numbers that might cancel are left open, and so are forms that are not positive where they vanish
    assert squares(x**2 - 2 * sympy.sqrt(2) * x + 2 + sympy.pi) is None
    assert roots_of_squares(x**2 - y**2) == roots_of_squares(x**2 + 1) == []


FUNCTIONS = {
    "quotient": (lambda u, v: tp.abs(u) / tp.sqrt(u * u + 2 * u * v + 3 * v * v), "abs(x)/sqrt(x*x+2*x*y+3*y*y)"),
    "root": (lambda u, v: tp.sqrt(u * u - u * v + v * v), "sqrt(x*x-x*y+y*y)"),
    "logarithm": (lambda u, v: tp.log(u * u + u * v + v * v), "log(x*x+x*y+y*y)"),
    "pole": (lambda u, v: (u * u + u * v + v * v) ** -0.25, "(x*x+x*y+y*y)**-.25"),
    "bump": (lambda u, v: 1 / (u * u - 2 * u + 2), "1/(x*x-2*x+2)"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_their_functions_have_means(name):
    """Beside a quadrature in polar coordinates of its own; without the mixed term it is another number."""
    function, written = FUNCTIONS[name]

    @tp.program
    def mean(u: tp.Vector, v: tp.Vector):
        return tp.avg(function(u, v))

    def polar(code):
        def body(r, t):
            place = {"x": r * np.cos(t), "y": r * np.sin(t), "sqrt": np.sqrt, "log": np.log}
            return eval(code, place) * r * np.exp(-r * r / 2) / (2 * np.pi)

        return dblquad(body, 0, 2 * np.pi, 0, 12, epsabs=1e-7, epsrel=1e-7)[0]

    found = tp.derive(mean).evaluate()["return"]
    assert abs(found.value - polar(written)) < 2e-6
    twin = written.replace("+2*x*y", "").replace("-x*y", "").replace("+x*y", "").replace("-2*x", "")
    assert abs(found.value - polar(twin)) > 1e-2


def test_forms_of_either_sign_are_refused():
    @tp.program
    def saddle(u: tp.Vector, v: tp.Vector):
        return tp.avg(tp.sqrt(u * u - 3 * u * v + v * v))

    with pytest.raises(tp.NoLimitError, match="not real with positive probability"):
        tp.derive(saddle)


def test_sums_without_squares_are_no_polynomials_to_be_made(monkeypatch):
    """Layers add hats and values: each sum of a chain is asked for its bounds, and holds no square."""
    made, poly = [], sympy.Poly
    monkeypatch.setattr(sympy, "Poly", lambda *a, **k: (made.append(a), poly(*a, **k))[1])
    for form in (x + y, x - 2 * y + 1, x * y + y * z - x * z, x + y * sympy.tanh(z)):
        assert squares(form) is None and bounds(form) == (-oo, oo)
    assert not made
    assert squares(x * (x + y) + y * (x + y)) == (((S.One, x + y),), S.Zero) and made
