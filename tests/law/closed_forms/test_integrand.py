"""Coefficients in a form in which a zero is seen."""

from __future__ import annotations

import itertools
import random

import pytest
import sympy
from sympy import pi, sqrt

from tplimits.law.closed_forms.integrand import NotClosed, step_products, tidy
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.functions import step
from tplimits.program.parts import longer

a, b, c = sympy.symbols("a b c", positive=True)


@pytest.mark.parametrize(
    "zero",
    [
        (a + b) ** 2 - a**2 - 2 * a * b - b**2,
        sqrt(2) * sqrt(3) - sqrt(6),
        sqrt(5 + 2 * sqrt(6)) - sqrt(2) - sqrt(3),
        1 / (a + b) + 1 / (a - b) - 2 * a / (a**2 - b**2),
        a / (a + b) + b / (a + b) - 1,
        (a * c + b * c) / (a + b) - c,
        sympy.exp(a) * (1 + b) - sympy.exp(a) - b * sympy.exp(a),
    ],
    ids=str,
)
def test_zeros_are_seen(zero):
    assert tidy(zero) == 0


@pytest.mark.parametrize(
    "value",
    [pi / 4 - sqrt(2) / 2, sqrt(2) + sqrt(3), a / (a + b) - 1, 1 / (a + b) ** 2, c / (a + b), sqrt(a + b) - a],
    ids=str,
)
def test_what_is_not_zero_keeps_its_value(value):
    found = tidy(value)
    place = {a: sympy.Rational(3, 7), b: sympy.Rational(5, 3), c: sympy.Rational(2, 9)}
    assert abs((found - value).xreplace(place).evalf(30)) < 1e-25 and found != 0


def test_products_and_symbols_stay_as_they_are():
    for value in (a, sympy.Rational(3, 7), c / (a + b), sympy.exp(-a) * b):
        assert tidy(value) == value


def test_what_is_too_long_to_compare_is_said_to_be():
    few, many = (sympy.Add(*(sympy.Symbol(f"s{i}") ** 2 for i in range(count))) for count in (30, 80))
    assert longer(a + b, 2) and not longer(a + b, 3)
    assert tidy(few) == few and tidy(a + 1 / (a + b)) != 0
    for long in (many, few + 1 / (a + few)):  # a pole is brought under one denominator
        with pytest.raises(NotClosed):
            tidy(long)


x, y = sympy.symbols("x y", real=True)
PIECES = (x, -y, x + 2 * y, -3 * x, x * y, -x * y * (x - 1), a * x - a * y, sympy.exp(x) * (y - 1), 2 - x, -a)


def test_steps_of_products_are_products_of_steps():
    """Point by point, nested steps and differences of them among the arguments."""
    rng, points = random.Random(0), [(0.7, -0.4), (-1.3, 2.1), (1.6, 1.1), (-0.2, -0.9), (2.5, -3.1)]
    nested = [p + q * step(r) for p, q, r in itertools.islice(itertools.permutations(PIECES, 3), 0, 700, 23)]
    for argument in (*PIECES, *nested):
        expr = step(argument) * rng.choice(PIECES) + step(rng.choice(PIECES))
        found = step_products(expr)
        for p, q in points:
            known = {x: p, y: q, a: 0.6}
            assert float(evaluate(found, known)) == pytest.approx(float(evaluate(expr, known))), (expr, known)
    assert step_products(step(-2 * x)) == 1 - step(x)
    assert step_products(step(a * x)) == step(x)
    assert step_products(sympy.cosh(x)) == sympy.exp(x) / 2 + sympy.exp(-x) / 2
