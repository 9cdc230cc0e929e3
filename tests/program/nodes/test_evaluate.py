"""Expressions on arrays, and means over a standard normal."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.evaluate import constant_mean, evaluate

x, y, g = sympy.symbols("x y g", real=True)


def test_arithmetic_and_broadcasting():
    known = {x: np.arange(3.0)[:, None], y: np.arange(1.0, 3.0)}
    got = evaluate(2 * x**2 - x / y + sympy.sqrt(y) + y**-3 + sympy.pi, known)
    a, b = np.arange(3.0)[:, None], np.arange(1.0, 3.0)
    np.testing.assert_allclose(got, 2 * a**2 - a / b + np.sqrt(b) + b**-3 + np.pi)


@pytest.mark.parametrize("exponent", ["2", "1/2", "-1", "-1/2", "3", "4", "5", "6", "64", "65", "-2", "7/3", "y"])
def test_powers(exponent):
    points = np.array([0.3, 1.0, 2.5])
    power = x ** sympy.sympify(exponent, locals={"y": y})
    expected = points ** float(sympy.sympify(exponent, locals={"y": sympy.Rational(3, 2)}))
    np.testing.assert_allclose(evaluate(power, {x: points, y: 1.5}), expected, rtol=1e-13)


def test_small_whole_powers_are_products(monkeypatch):
    """NumPy's take a hundred times as long; their rounding stays within four units of 2^-53."""
    points = np.random.default_rng(3).normal(size=400)
    monkeypatch.setattr(np, "power", None)
    for exponent in (-2, 3, 4, 5):
        exact = [float(Fraction(p) ** exponent) for p in points]
        got = evaluate(x**exponent, {x: points})
        assert (abs(got / exact - 1) <= 2.0**-51).all()
        off = evaluate(x**exponent, {x: points * (1 + 2.0**-51)})
        assert (abs(off / exact - 1) > 2.0**-51).any()


def test_a_known_expression_is_not_looked_into():
    assert evaluate(sympy.tanh(x) + 1, {sympy.tanh(x): 5.0}) == 6


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        (x + y, r"`y` \(Symbol\) has no numerical form"),
        (sympy.gamma(x), r"`gamma\(x\)` \(gamma\) has no numerical form"),
        (sympy.asin(2) * x, r"the constant asin\(2\) is not a real number"),
        (sympy.Integer(10) ** 400 * x, "the constant 1000.* is not a real number in double precision"),
        (GaussMean(y * g, g), r"`y` in .* has no value"),
    ],
)
def test_what_has_no_value(expr, words):
    with pytest.raises(EvaluationError, match=words):
        evaluate(expr, {x: 1.0})


NORMAL_MEANS = {
    "second moment of relu": (functions.relu(g) ** 2, 1 / 2),
    "tanh is odd": (sympy.tanh(g), 0),
    "exponential": (sympy.exp(3 * g), math.exp(9 / 2)),
    "far exponential": (sympy.exp(10 * g), math.exp(50)),
    "growing like a normal": (sympy.exp(g**2 / 4), math.sqrt(2)),
    "cosine": (sympy.cos(5 * g), math.exp(-25 / 2)),
    "shifted kink": (
        functions.relu(g - 1),
        math.exp(-1 / 2) / math.sqrt(2 * math.pi) - math.erfc(1 / math.sqrt(2)) / 2,
    ),
    "jump": (functions.step(2 * g + 1), (1 + math.erf(0.5 / math.sqrt(2))) / 2),
    "two kinks": (sympy.Abs(g**2 - 1), 4 / math.sqrt(2 * math.pi * math.e)),
    "maximum": (functions.maximum(g, 2 * g), 1 / math.sqrt(2 * math.pi)),
    # peaks and steps between nodes: by the density of g + σz at the peak, by P(g + σz > t)
    "peak": (
        sympy.exp(-(10**6) * (g - sympy.Rational(37, 100)) ** 2 - 3),
        math.exp(-3 - 0.37**2 / (2 + 1e-6)) / math.sqrt(1 + 2e6),
    ),
    "step": (sympy.erf(300 * (g - 1) / sympy.sqrt(2)), -math.erf(1 / math.sqrt(2 * (1 + 1 / 300**2)))),
    "mirrored step": (sympy.erf(30 * (g + 1.37) / sympy.sqrt(2)), math.erf(1.37 / math.sqrt(2 * (1 + 1 / 30**2)))),
    "sixth moment": (g**6, 15),
    "even constant": (sympy.Integer(3) + 0 * g, 3),
}


@pytest.mark.parametrize("name", NORMAL_MEANS)
def test_means_over_a_standard_normal(name):
    integrand, expected = NORMAL_MEANS[name]
    assert constant_mean(integrand, g).value == pytest.approx(expected, rel=1e-11, abs=1e-13)


def test_a_mean_that_diverges():
    with pytest.raises(EvaluationError, match="is infinite"):
        constant_mean(sympy.exp(g**2), g)


def test_a_mean_entry_by_entry_in_other_symbols():
    got = evaluate(GaussMean(sympy.exp(y * g), g), {y: np.array([[0.0, 1.0]])})
    np.testing.assert_allclose(got, [[1, math.exp(0.5)]])
    # peaks that move with the entry
    got = evaluate(GaussMean(sympy.exp(-(10**6) * (g - y) ** 2), g), {y: np.array([0.37, 2.21])})
    np.testing.assert_allclose(
        got, np.exp(-(np.array([0.37, 2.21]) ** 2) / (2 + 1e-6)) / math.sqrt(1 + 2e6), rtol=1e-11
    )


def test_everything_is_float():
    @tp.program
    def constant(x: tp.Vector):
        return tp.step(x) + 0 * x + 2

    assert constant.run(n=2, x=[1.0, -1.0])["return"].dtype == np.float64
