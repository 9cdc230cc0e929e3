"""Means of functions that grow like e^(a x²), a > 0, against mpmath; quadrature alone is blind there."""

import mpmath as mp
import numpy as np
import pytest
import sympy

from tplimits.errors import EvaluationError
from tplimits.numbers.moments.function import moment
from tplimits.program.nodes.functions import relu

X, Y = sympy.symbols("x y", real=True)
BREAKS = (-40, -15, -6, -2, 0, 2, 6, 15, 40)
FUNCTIONS = {
    "times tanh": lambda m, x: m.exp(x**2 / 5) * m.tanh(x),
    "with a slope": lambda m, x: m.exp(x**2 / 5 + x / 10),
    "minus one": lambda m, x: m.exp(x**2 / 5) - 1,
    "a sum": lambda m, x: m.exp(x**2 / 5) * m.tanh(x) - m.exp(x**2 / 9) * m.cos(x),
}


def truth(f, shrink):
    """E f(z) f(z/shrink)."""
    return mp.quad(lambda z: f(mp, z) * f(mp, z / shrink) * mp.npdf(z), BREAKS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_squares_are_completed(name):
    f = FUNCTIONS[name]
    found = moment(f(sympy, X) * f(sympy, Y), (X, Y))
    variances = np.array([1.0, 0.25])
    value, error = found(1.0, np.sqrt(variances), variances, det=np.zeros(2))
    expected = np.array([float(truth(f, s)) for s in (1, 2)])
    assert (abs(value - expected) <= error + 1e-13).all() and (error <= 1e-9 * expected).all()


def test_two_inputs_that_are_correlated():
    """Different squares on both sides: a grid over the plane, whose error is exponentially small in its step."""
    f = sympy.exp(X**2 / 5) * sympy.tanh(X + sympy.Rational(1, 2))
    h = sympy.exp(X**2 / 9 - X / 7) * sympy.cos(X)
    c11, c12, c22 = 1.0, 0.4, 0.7
    value, error = moment(f * h.xreplace({X: Y}), (X, Y))(c11, c12, c22, det=c11 * c22 - c12**2)
    t = np.linspace(-22, 22, 1761)
    x, y = t[:, None], t[None, :]
    density = np.exp(-(c22 * x * x - 2 * c12 * x * y + c11 * y * y) / (2 * (c11 * c22 - c12**2)))
    sizes = np.exp(x * x / 5) * np.tanh(x + 0.5) * np.exp(y * y / 9 - y / 7) * np.cos(y) * density
    expected = sizes.sum() * (t[1] - t[0]) ** 2 / (2 * np.pi * np.sqrt(c11 * c22 - c12**2))
    assert abs(value - expected) <= error + 1e-12 and error <= 1e-8 * abs(expected)


def test_one_variable_and_a_kink():
    f = (sympy.exp(X**2 * sympy.Rational(12, 25)) - 1) * relu(X + sympy.Rational(3, 10)) * sympy.tanh(X)
    value, error = moment(f, (X,))(1.0)
    f_at = lambda x: (mp.exp(mp.mpf(12) / 25 * x * x) - 1) * (x + mp.mpf(3) / 10) * mp.tanh(x) * mp.npdf(x)  # noqa: E731
    expected = float(mp.quad(f_at, [-0.3, 0, 2, 6, 15, 40, 80]))
    assert value == pytest.approx(expected, rel=1e-9) and error <= 1e-8 * expected


def test_an_infinite_mean_is_refused():
    f = sympy.exp(X**2 / 4) * sympy.tanh(X)
    found = moment(f * f.xreplace({X: Y}), (X, Y))
    assert found(0.9, 0.9, 0.9)[0] > 0
    with pytest.raises(EvaluationError, match="is infinite at some of the covariances"):
        found(1.1, 1.1, 1.1)
