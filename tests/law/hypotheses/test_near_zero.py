"""Numerators that cancel beside a pole: quadrature reads them off their Taylor series, and does not add rounding."""

from __future__ import annotations

import numpy
import pytest
import sympy
from scipy import integrate

import tplimits as tp
from tplimits.law.hypotheses.near_zero import steadied
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.series import near


def remainder(k, derivative):
    """E f for f = (F(x) − its Taylor polynomial)/x^k: ∫ (1 − s)^(k − 1)/(k − 1)! E F⁽ᵏ⁾(s x) ds over [0, 1]."""
    scale = 1 / float(sympy.factorial(k - 1))
    return integrate.quad(lambda s: (1 - s) ** (k - 1) * scale * derivative(s), 0, 1, epsabs=1e-13)[0]


def mean(f):
    return integrate.quad(lambda x: f(x) * numpy.exp(-x * x / 2), -30, 30, epsabs=1e-14)[0] / (2 * numpy.pi) ** 0.5


def slope(x):
    """σ′, the second derivative of softplus."""
    return 1 / (4 * numpy.cosh(x / 2) ** 2)


#: a ket with a removable pole, and its mean as an integral without any
CANCELLING = {
    "cosh": (lambda x: (tp.exp(x) + tp.exp(-x) - 2) / x**2, remainder(2, lambda s: 2 * numpy.exp(s * s / 2))),
    "exp": (lambda x: (tp.exp(x) - 1 - x) / x**2, remainder(2, lambda s: numpy.exp(s * s / 2))),
    "cosh, fourth order": (
        lambda x: (tp.exp(x) + tp.exp(-x) - 2 - x**2) / x**4,
        remainder(4, lambda s: 2 * numpy.exp(s * s / 2)),
    ),
    "cos, fourth order": (
        lambda x: (tp.cos(x) - 1 + x**2 / 2) / x**4,
        remainder(4, lambda s: numpy.exp(-s * s / 2)),
    ),
    "a bump": (lambda x: (tp.exp(-x * x) - 1) / x**2, 1 - 3**0.5),
    "softplus": (
        lambda x: (tp.softplus(x) - tp.log(2) - x / 2) / x**2,
        remainder(2, lambda s: mean(lambda x: slope(s * x))),
    ),
    "elsewhere": (
        lambda x: (tp.exp(2 * x + 1) - 2 - 2 * x) / (2 * x + 1) ** 2,
        # 2x + 1 has mean 1 and variance 4
        remainder(2, lambda s: numpy.exp(s + 2 * s * s)),
    ),
    "of a kink": (
        lambda x: (tp.exp(tp.relu(x)) - 1 - tp.relu(x)) / x**2,
        remainder(2, lambda s: mean(lambda x: numpy.exp(s * x) * (x > 0)) if s else 0.5),
    ),
    "in a function": (
        lambda x: tp.sin(tp.exp(-x * x) - 1) / x**2,
        mean(lambda x: numpy.sin(numpy.expm1(-x * x)) / x**2 if x else -1),
    ),
}


@pytest.mark.parametrize("case", CANCELLING)
def test_quadrature_does_not_add_the_rounding_beside_a_pole(case):
    function, expected = CANCELLING[case]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    number = tp.derive(program).evaluate()["return"]
    assert number.method == "quadrature"
    assert number.value == pytest.approx(expected, rel=1e-9)
    assert number.value != pytest.approx(expected * (1 + 3e-9), rel=1e-9)
    assert number.error < 1e-12


class _One:
    """x is a standard normal variable, everything else a number."""

    def is_random(self, symbol):
        return symbol == x

    def definition(self, symbol):
        return None

    def of(self, expr):
        return expr.free_symbols & {x}

    def covariance(self, a, b):
        return sympy.S.One


x, c = sympy.symbols("x c", real=True)


@pytest.mark.parametrize("at", [0.3, 1e-2, 1e-5, 1e-9, 1e-14])
def test_all_digits_are_kept_on_the_way_to_the_pole(at):
    function = (sympy.exp(x) - 1 - x) / x**2
    exact = function.xreplace({x: sympy.Rational(at)}).evalf(30, maxn=200)
    found = evaluate(steadied(function, _One()), {x: numpy.array([at])})[0]
    assert found == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize(
    "function",
    [
        x / sympy.tanh(x),  # no sum
        (1 + x) / x**2,  # does not vanish
        (sympy.exp(x) - 1 - x) / (1 + x**2),  # no pole
        (sympy.exp(c * x) - 1) / x,  # not a function of x alone
        (x + sympy.Abs(x)) / x**2,  # not analytic
        (2 * x + 4) / (x + 2) ** 2,  # all digits there
    ],
    ids=str,
)
def test_other_functions_are_left_as_they_are(function):
    assert not steadied(function, _One()).has(near)


def test_a_refusal_shows_the_function_and_not_its_series():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg((tp.exp(30 * x) - 1 - 30 * x) / x**2)

    with pytest.raises(tp.EvaluationError, match=r"lies further out") as refusal:
        tp.derive(program).evaluate()
    assert "near" not in str(refusal.value)
