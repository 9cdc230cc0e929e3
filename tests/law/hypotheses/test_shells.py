"""Poles whose squares are not integrable, by the powers at which integrals over shells diverge."""

from __future__ import annotations

import pytest
import sympy
from sympy import Abs, Rational, sqrt, tanh

import tplimits as tp
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses.shells import diverging_pole

x, y, z = sympy.symbols("x y z", real=True)
R2, R3 = x**2 + y**2, x**2 + y**2 + z**2


@pytest.fixture
def law():
    gaussians = Gaussians()
    for position, symbol in enumerate((x, y, z)):
        assert gaussians.add(symbol.name, InitialSource(position, ())) == symbol
    return gaussians


@pytest.mark.parametrize(
    ("f", "diverges"),
    [
        (Abs(x) ** Rational(-1, 2), True),  # ∫ dx/x
        (Abs(x) ** Rational(-9, 20), False),
        (1 / x, True),
        (1 / (x - y), True),
        (1 / sqrt(R2), True),  # ∫ r dr/r²
        (R2 ** Rational(-2, 5), False),
        (x / R2, True),
        (x**2 / R2, False),
        (x / R2 ** Rational(7, 8), False),
        (1 / sqrt(R3), False),  # ∫ r² dr/r²
        (R3 ** Rational(-3, 4), True),
        (1 / (x**2 + Abs(y)), True),
        ((x**2 + Abs(y)) ** Rational(-3, 4), True),  # w = ½ + 1, twice ¾
        ((x**2 + Abs(y)) ** Rational(-7, 10), False),
        (1 / (tanh(x) ** 2 / 8 + tanh(y) ** 2 / 8), True),  # of what is nowhere large
        (tanh(x) / x - 1, False),
        ((tanh(x) - x) / x**3, False),  # terms that cancel
        ((tanh(x) - x + x**2) / x**3, True),
        (1 / (1 + x**2), False),
        (1 / (Abs(x) + Rational(1, 9)), False),
        (sympy.exp(x), False),
        (1 / (x * (1 + y**2)), True),
        (sqrt(sympy.Symbol("c", positive=True)) / x, True),
    ],
    ids=str,
)
def test_squares_that_are_not_integrable(law, f, diverges):
    assert bool(diverging_pole(f, law)) is diverges


def test_the_forms_that_vanish_are_named(law):
    assert diverging_pole(1 / x, law).startswith("it has a pole where x vanishes,")
    assert diverging_pole(1 / sqrt(R2), law).startswith("it has a pole where x, y vanish,")


def test_of_dependent_variables_nothing_is_said():
    class Equal(Gaussians):
        def covariance(self, a, b):
            return sympy.S.One

    gaussians = Equal()
    for position, symbol in enumerate((x, y)):
        gaussians.add(symbol.name, InitialSource(position, ()))
    assert not diverging_pole(1 / sqrt(R2), gaussians) and diverging_pole(1 / x, gaussians)


def test_exponentials_of_exponentials_are_too_large_for_digits_and_leave_the_question_open():
    """e^(−e^(2x/y)) at y = 1e-16 is no number of any length: nobody says that it diverges."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.exp(tp.maximum(tp.where(y, x / y, tp.exp(-tp.exp(2 * x / y))), x)))

    with pytest.raises(tp.TplimitsError, match="not decided"):
        tp.derive(program).evaluate()
