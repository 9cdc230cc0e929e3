"""Means, deltas and Ito's rule of the closed forms, one at a time, by hand."""

import pytest
import sympy
from sympy import Abs, DiracDelta, Rational, exp, pi, sign, sqrt

import tplimits as tp
from tplimits.program.nodes.entries import Entry, axis_symbol
from tplimits.program.nodes.functions import relu, step
from tplimits.regimes.finite_width.closed import ClosedAverages, Jet, NoClosedForm, decimal

DENSITY = exp(-Rational(1, 2)) / sqrt(2 * pi)  # of a normal variable at ±1


def variables():
    """Averages, and two normal variables."""
    averages = ClosedAverages({"n": Rational(1)})
    return averages, averages.normal("n", 1).value, averages.normal("n", 1).value


def test_decimals_are_what_was_written():
    x = sympy.Symbol("x")
    assert decimal(Rational(0.2) * x + Rational(1, 3) + sympy.Float(0.7) * x**2) == 7 * x**2 / 10 + x / 5 + Rational(
        1, 3
    )
    assert decimal(Rational(1, 1 << 30) * x) == x / (1 << 30)


def test_numbers_that_are_sums_keep_their_sign():
    averages, g, h = variables()
    small, large = 1 - sqrt(2), 3 - sqrt(2)
    assert sympy.simplify(averages.mean(relu(small * g), "m") + small / sqrt(2 * pi)) == 0
    assert sympy.simplify(averages.mean((small * g + large * h) ** 2, "m") - small**2 - large**2) == 0
    assert sympy.simplify(averages.mean(Abs(g) / large, "m") - sqrt(2 / pi) / large) == 0


def test_deltas_take_what_stands_beside_them_where_they_are():
    averages, g, h = variables()
    at_one = averages.mean(DiracDelta(2 * g - 2) * sign(g) * (g + 3) * h**2, "m")
    assert sympy.simplify(at_one - 2 * DENSITY) == 0
    assert sympy.simplify(averages.mean(DiracDelta(g - 1) * (Abs(g + 1) - h**4), "m") + DENSITY) == 0
    on_a_line = averages.mean(DiracDelta(g + h) * g * h, "m")  # g = −h: −E[h² δ] = −(1/2)/√(4π)
    assert sympy.simplify(on_a_line + 1 / (4 * sqrt(pi))) == 0
    assert averages.mean(DiracDelta(g) * g * sign(g) * h**2, "m") == 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda g, h: DiracDelta(g**2 - 1) * (g + 2), "at no one place"),  # the roots ±1 have different values
        (lambda g, h: DiracDelta(g * h) * g**2, "at no one place"),  # E|g| φ(0) on h = 0, nothing on g = 0
        (lambda g, h: DiracDelta(g, 1) * g, "second derivative of a jump"),
        (lambda g, h: DiracDelta(g) * DiracDelta(h), "second derivative of a jump"),
        (lambda g, h: DiracDelta(g) ** 2 * h**2, "second derivative of a jump"),
        (lambda g, h: sympy.Derivative(sign(g), g) * h**2, "second derivative of a jump"),
        (lambda g, h: DiracDelta(g) * step(3 * g) * (h + 1), "at the place of another one"),
    ],
)
def test_deltas_that_have_no_place_of_their_own(body, why):
    averages, g, h = variables()
    with pytest.raises(NoClosedForm, match=why):
        averages.mean(body(g, h), "m")


def test_functions_of_averages_by_hand():
    """F = m √c with c = 0 for sure: its mixed derivative is infinite, and nothing asks for it."""
    averages, g, _ = variables()
    a, b = (Entry(sympy.Integer(k), axis_symbol("own")) for k in range(2))
    m = averages.average(Jet(g**2), "n", "m")
    assert averages.function(a * sqrt(b), {a: m, b: Jet(sympy.S.Zero)}).value == 0
    cube = averages.function(a**3, {a: m})  # E m³ = 1 + 3 Var m, Var m = 2/n
    assert (cube.value, cube.shift, dict(cube.slopes)) == (1, 6, {0: 3})
    with pytest.raises(NoClosedForm, match="not finite"):
        averages.function(1 / (a - 1), {a: m})


def test_averages_over_an_axis_of_half_the_width():
    """k = n/2: Var Avg z² = 2/k = 4/n, and E Avg(z Avg z) = 1/k = 2/n."""
    averages = ClosedAverages({"k": Rational(1, 2)})
    z = averages.normal("k", 1)
    averages.average(averages.product(z, z), "k", "square")
    assert averages.covariance(0, 0) == 4
    tied = averages.average(averages.product(z, averages.average(z, "k", "mean")), "k", "tied")
    assert (tied.value, tied.shift, averages.covariance(2, 2), averages.covariance(0, 1)) == (0, 2, 0, 0)


def test_means_without_a_closed_form_are_named():
    averages, g, h = variables()
    for body in (sympy.tanh(g) ** 2, sympy.tanh(g * h) ** 2, sympy.tanh(g) ** 2 + 1):
        with pytest.raises(NoClosedForm, match=r"m has no closed form: E\["):
            averages.mean(body, "m")


def test_an_expected_function_is_not_expanded():
    @tp.program
    def expected(x: tp.Vector):
        return tp.avg(x**2) * tp.expect(lambda z: tp.tanh(z) ** 2)

    with pytest.raises(tp.EvaluationError, match=r"tp\.expect"):
        tp.derive(expected, tp.FiniteWidth()).exact()
