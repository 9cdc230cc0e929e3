"""Closed expressions at moments that are known within errors: values, and what has none."""

from __future__ import annotations

import mpmath
import numpy
import pytest
import sympy
from sympy import Rational

from tplimits.errors import EvaluationError
from tplimits.numbers import precision
from tplimits.numbers.precision import Unsettled, check_settled, double, high_precision
from tplimits.program.nodes.functions import step

a, b, c = sympy.symbols("a b c", real=True)


def test_values_have_many_digits():
    found = high_precision(sympy.sqrt(a) - b, {a: sympy.Integer(2), b: Rational(7, 5)})
    assert abs(found - (sympy.sqrt(2) - Rational(7, 5)).evalf(60)) < sympy.Float("1e-25")


@pytest.mark.parametrize("rate", [10, 50])
def test_large_terms_that_cancel_keep_their_digits(rate):
    k, v = Rational(rate, 2), sympy.Float(0.39429449039784126, 17)
    halves = k * a * sympy.exp(2 * k**2 * a) * sympy.erf(k * sympy.sqrt(2 * a)), -k * a * sympy.exp(2 * k**2 * a)
    found = high_precision(sympy.Add(*halves, sympy.sqrt(a / (2 * sympy.pi))), {a: v})
    with mpmath.workdps(40):  # E e^(−rate h) relu(h), h of variance v
        s = mpmath.sqrt(mpmath.mpf(0.39429449039784126))
        places = [0, 1 / (rate * s), 4 / (rate * s), 20 / (rate * s), 100 / (rate * s)]
        expected = mpmath.quad(lambda g: s * g * mpmath.exp(-rate * s * g) * mpmath.npdf(g), places)
    assert float(found) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize(
    ("expr", "known", "words"),
    [
        (a + b + c, {a: 1}, "no value for b, c: give it by name, as in evaluate\\(b=1.0\\)"),
        (1 / (a - 1), {a: 1}, "has no finite value"),
        (sympy.sqrt(a), {a: -1}, "is not a real number"),
        (sympy.log(a), {a: 0}, "has no finite value"),
        (sympy.Function("f")(a), {a: 1}, "has no numerical form"),
    ],
)
def test_what_has_no_value_is_told(expr, known, words):
    with pytest.raises(EvaluationError, match=words):
        high_precision(expr, {s: sympy.sympify(v) for s, v in known.items()})


def test_an_imaginary_part_within_the_noise_is_dropped():
    """acos of a correlation that passes 1 by rounding."""
    over = {a: 1 + Rational(1, 10**14)}
    assert abs(high_precision(1 + sympy.acos(a), over, noise=1e-6) - 1) < 1e-6
    with pytest.raises(Unsettled, match="not a real number"):
        high_precision(1 + sympy.acos(a), over, noise=1e-9)


def test_large_numbers_are_no_doubles():
    assert double(sympy.Float("1e308"), a) == 1e308
    with pytest.raises(EvaluationError, match="too large for a double"):
        double(sympy.Float("2e308"), a)


def moving(value, *others):
    return {a: numpy.array([value, *others])}


@pytest.mark.parametrize(
    ("expr", "variants", "fixed", "settled"),
    [
        (1 / a, moving(1e-9, 2e-9, -3e-9), {}, False),
        (1 / a, moving(1e-3, 1e-3 + 1e-9), {}, True),
        (sympy.sqrt(a), moving(0.0, 1e-9), {}, False),
        (a**2 + a, moving(0.0, 1e-9), {}, True),
        (sympy.log(a), moving(1e-9, 3e-9), {}, False),
        (sympy.sign(a - b), moving(0.5, 0.5 + 1e-9), {b: 0.5}, False),
        (sympy.sign(a - b), moving(0.5, 0.5 + 1e-9), {b: 0.6}, True),
        (step(b) * a, moving(0.5, 0.6), {b: 0.0}, True),  # given, and the same at every width
        (a / b, moving(0.5, 0.6), {b: 0.0}, False),
        (sympy.exp(-1 / (a + 1)), moving(-1.0, -1.0 + 1e-12), {}, False),
    ],
    ids=str,
)
def test_singular_places_within_errors_are_refused(expr, variants, fixed, settled):
    if settled:
        check_settled(expr, variants, fixed)
    else:
        with pytest.raises(Unsettled, match="is 0 within its error"):
            check_settled(expr, variants, fixed)


def test_a_refusal_names_moments_and_constants():
    told = Unsettled("the root of `{}` is not real.", a + b).told(lambda e: e.xreplace({a: c**2}), {b: Rational(1, 3)})
    assert str(told) == "the root of `b + c**2` at b = 0.333333 is not real."


def test_equal_numbers_are_computed_once():
    x = sympy.Symbol("x")
    expr = sympy.exp(x) / 7 + sympy.sqrt(x)
    first = high_precision(expr, {x: Rational(3, 11)})
    hits = precision._digits.cache_info().hits
    assert high_precision(expr, {x: Rational(3, 11)}) == first
    assert precision._digits.cache_info().hits == hits + 1
    assert high_precision(expr, {x: Rational(3, 10)}) != first
