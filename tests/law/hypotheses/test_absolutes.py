"""Functions that touch zero and never cross it: under roots and logarithms, and divided by."""

from __future__ import annotations

import mpmath
import numpy
import pytest
import sympy

import tplimits as tp
from tplimits.law.hypotheses.absolutes import as_square
from tplimits.program.nodes.evaluate import evaluate

x = sympy.Symbol("x", real=True)
#: ends of pieces: what is integrated has kinks and zeros there
PLACES = sorted([-14, 14, -1, -0.5, 0.5, 1, *(k * mpmath.pi / 2 for k in range(-8, 9))])


def fourier(coefficient):
    """E log(1 ± cos x), E log(1 ± sin x): −log 2 − 2 Σ coefficient(k) e^(−k²/2)/k, by the series of log|sin|."""
    return -numpy.log(2) - 2 * sum(coefficient(k) * numpy.exp(-k * k / 2) / k for k in range(1, 12))


def mean(function):
    """To be taken by the test: files are collected by every process."""

    def taken():
        with mpmath.workdps(40):
            return float(mpmath.quad(lambda t: function(t) * mpmath.npdf(t), PLACES).real)

    return taken


#: a ket, and its mean by a series, by hand or by many digits
TOUCHING = {
    "log(1 − cos)": (lambda x: tp.log(1 - tp.cos(x)), fourier(lambda k: 1)),
    "log(1 + cos)": (lambda x: tp.log(1 + tp.cos(x)), fourier(lambda k: (-1) ** k)),
    "log(1 − sin)": (lambda x: tp.log(1 - tp.sin(x)), fourier(lambda k: numpy.cos(k * numpy.pi / 2))),
    "log(3 + 3 sin)": (
        lambda x: tp.log(3 + 3 * tp.sin(x)),
        numpy.log(3) + fourier(lambda k: numpy.cos(k * numpy.pi / 2)),
    ),
    "√(1 − cos)": (lambda x: tp.sqrt(1 - tp.cos(x)), mean(lambda t: mpmath.sqrt(2) * abs(mpmath.sin(t / 2)))),
    "1/(1 − tanh²)": (lambda x: 1 / (1 - tp.tanh(x) ** 2), (1 + numpy.exp(2)) / 2),
    "√(exp − 1 − x)": (
        lambda x: tp.sqrt(tp.exp(x) - 1 - x),
        mean(lambda t: mpmath.sqrt(mpmath.exp(t) - 1 - t)),
    ),
    "√(2 cosh − 2)": (lambda x: tp.sqrt(tp.exp(x) + tp.exp(-x) - 2), mean(lambda t: abs(2 * mpmath.sinh(t / 2)))),
    "√log(1 + x²)": (lambda x: tp.sqrt(tp.log(1 + x * x)), mean(lambda t: mpmath.sqrt(mpmath.log(1 + t * t)))),
    "clip(x)/x": (lambda x: tp.clip(x, -1, 1) / x, mean(lambda t: min(1, 1 / abs(t)) if t else 1)),
    "clip(x, −1, ½)²/x²": (
        lambda x: tp.clip(x, -1, 0.5) ** 2 / x**2,
        mean(lambda t: (max(-1, min(t, 0.5)) / t) ** 2 if t else 1),
    ),
}


@pytest.mark.parametrize("case", TOUCHING)
def test_means_of_what_touches_zero(case):
    function, expected = TOUCHING[case]
    expected = expected() if callable(expected) else expected

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    number = tp.derive(program).evaluate()["return"]
    assert number.value == pytest.approx(expected, rel=1e-8)
    assert number.value != pytest.approx(expected * (1 + 1e-6), rel=1e-8)


POLES = {
    "x²/(1 − cos)": lambda x: x**2 / (1 - tp.cos(x)),  # poles at 2π too
    "1/(1 − sin²)": lambda x: 1 / (1 - tp.sin(x) ** 2),
    "clip(x, 1, 2)/x": lambda x: tp.clip(x, 1, 2) / x,
    "√(x − sin)": lambda x: tp.sqrt(x - tp.sin(x)),
}


@pytest.mark.parametrize("case", POLES)
def test_poles_and_roots_that_stay_are_refused(case):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(POLES[case](x))

    with pytest.raises(tp.TplimitsError, match=r"moment"):
        tp.derive(program).evaluate()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("head", [sympy.sin, sympy.cos, sympy.tanh, sympy.exp])
def test_squares_are_the_functions_that_they_stand_for(head, power, sign):
    function = 2 + 2 * sign * head(3 * x + 1) ** power
    places = {x: numpy.linspace(-2, 2, 41)}
    numpy.testing.assert_allclose(evaluate(as_square(function), places), evaluate(function, places), atol=1e-13)
