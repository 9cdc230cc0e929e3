"""Difference quotients, divisors that keep off 0 on every side of a jump, derivatives that are infinite at a kink."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.quotients import over_one_denominator
from tplimits.law.hypotheses.tails import Growth
from tplimits.program.nodes.functions import relu, step

x, y = sympy.symbols("x y", real=True)


def over_the_segment(mean):
    """∫₀¹∫₀¹ of a function of two points between y and x."""
    return float(mpmath.quad(lambda s: mpmath.quad(lambda t: mean(s, t), [0, 1]), [0, 1]))


def cosines(s, t):
    """E cos(y + s(x − y)) cos(y + t(x − y))."""
    apart, both = 2 * (t - s) ** 2, (t + s) ** 2 + (2 - t - s) ** 2
    return (mpmath.exp(-apart / 2) + mpmath.exp(-both / 2)) / 2


def exponentials(s, t):
    return mpmath.exp(((t + s) ** 2 + (2 - t - s) ** 2) / 2)


@pytest.mark.parametrize(
    ("function", "square"),
    [
        (lambda u: u**2, 2.0),
        (tp.sin, over_the_segment(cosines)),
        (tp.exp, over_the_segment(exponentials)),
    ],
    ids=["square", "sin", "exp"],
)
def test_difference_quotients_have_means(function, square):
    """E ((f(x) − f(y))/(x − y))² = ∫∫ E f′(y + s(x − y)) f′(y + t(x − y)) ds dt."""

    @tp.program
    def quotient(x: tp.Vector, y: tp.Vector):
        d = (function(x) - function(y)) / (x - y)
        return tp.avg(d * d)

    number = tp.derive(quotient).evaluate()["return"]
    assert number.value == pytest.approx(square, abs=1e-9)
    assert number.error < 1e-9


def test_irrational_factors_are_numbers_as_others():
    """E (sin √2x − sin √2y)/(x − y) = √2 ∫ E cos(√2 (y + t(x − y))) dt = √2 ∫ exp(−t² − (1 − t)²) dt."""

    @tp.program
    def quotient(x: tp.Vector, y: tp.Vector):
        return tp.avg((tp.sin(tp.sqrt(2) * x) - tp.sin(tp.sqrt(2) * y)) / (x - y))

    number = tp.derive(quotient).evaluate()["return"]
    assert number.value == pytest.approx(math.sqrt(math.pi / math.e) * math.erf(math.sqrt(0.5)), abs=1e-12)
    assert number.error < 1e-12


@pytest.mark.parametrize(
    ("expr", "kind"),
    [
        ((x**2 - y**2) / (x - y), Growth.POLYNOMIAL),
        ((sympy.cos(x) - sympy.cos(2 * y)) / sympy.Abs(x - 2 * y), Growth.BOUNDED),
        ((sympy.exp(x) - sympy.exp(y) - (x - y) * sympy.exp(y)) / (x - y) ** 2, Growth.EXPONENTIAL),
        ((relu(x) - relu(y)) / (x - y), Growth.BOUNDED),
        ((relu(x) - relu(y)) / (x - y) ** 2, Growth.UNKNOWN),  # of order 1 alone
        ((sympy.cos(x) - sympy.cos(y)) / (x - 2 * y), Growth.INFINITE),  # another line
        ((x**3 - y**3) / (x - y) ** 2, Growth.INFINITE),
        ((sympy.cos(x) - sympy.cos(y)) / sympy.Abs(x - y) ** sympy.Rational(3, 2), Growth.INFINITE),
        ((sympy.exp(x**2 / 8) - sympy.exp(y**2 / 8)) / (x - y), Growth.UNKNOWN),
        (x**2 / (3 * step(y) - 1), Growth.POLYNOMIAL),
        (1 / (2 * sympy.sign(y) + 1), Growth.BOUNDED),
        (1 / (2 * sympy.sign(relu(y)) - 2), Growth.UNKNOWN),  # 1/0 for y > 0
        (1 / (1 + sympy.sign(relu(y) - 1)), Growth.UNKNOWN),  # and for y < 1
    ],
    ids=str,
)
def test_tails_of_quotients(expr, kind):
    assert tail(expr, independent([x, y])).kind is kind


def test_a_root_of_what_is_flat_has_its_dot_part_by_stein():
    """E ∂√relu(h) is E h √relu(h) = E relu(h)^(3/2), where the derivative is 0/0 for h < 0."""

    @tp.program
    def rooted(W: tp.Matrix, x: tp.Vector):
        z = W.T @ tp.sqrt(tp.relu(W @ x))
        return tp.avg(x * z), tp.avg(z**2)

    dot = 2**0.75 * math.gamma(1.25) / math.sqrt(math.pi) / 2
    found = tp.derive(rooted).evaluate()
    assert found["return[0]"].value == pytest.approx(dot, abs=1e-12)
    assert found["return[1]"].value == pytest.approx(1 / math.sqrt(2 * math.pi) + dot**2, abs=1e-12)


def test_one_denominator_holds_the_highest_power_in_every_order():
    h = sympy.Symbol("h", real=True)
    terms = 1 / h, -sympy.tanh(h) / h**3, sympy.sin(h) / h**2
    for order in itertools.permutations(terms):
        whole = over_one_denominator(sympy.Add(*order, evaluate=False), lambda base: True)
        assert sympy.expand(whole * h**3) == h**2 - sympy.tanh(h) + h * sympy.sin(h)
        assert len([f for f in sympy.Mul.make_args(whole) if f.is_Pow]) == 1 and h**-3 in whole.args


@tp.program
def of_truncated(x: tp.Vector.truncated(1, 2), y: tp.Vector.truncated(1, 2)):
    return tp.avg((tp.tanh(x) - tp.tanh(y)) / (x - y))


@pytest.mark.long
def test_difference_quotients_of_truncated_entries():
    """On two grids of Legendre's that share no node; a normal law has .7006."""
    (x, a), (y, b) = (np.polynomial.legendre.leggauss(k) for k in (60, 61))
    laws = [2 * w * np.exp(-2 * g * g) for g, w in ((x, a), (y, b))]
    slopes = np.subtract.outer(np.tanh(2 * x), np.tanh(2 * y)) / np.subtract.outer(2 * x, 2 * y)
    truth = laws[0] @ slopes @ laws[1] / (laws[0].sum() * laws[1].sum())
    found = tp.derive(of_truncated).evaluate()["return"].value
    assert found == pytest.approx(truth, abs=1e-10) and found != pytest.approx(0.7006, abs=1e-3)


def test_a_normal_bound_for_truncated_entries_is_one_alone():
    """What grows at the same variable itself is judged as it is; and clips that are equal divide 0 by 0."""

    @tp.program
    def clipped(x: tp.Vector, y: tp.Vector):
        a, b = (tp.minimum(1, tp.maximum(-1, z)) for z in (x, y))
        return tp.avg((tp.tanh(a) - tp.tanh(b)) / (a - b))

    with pytest.raises(tp.TplimitsError, match="not decided"):
        tp.derive(clipped).evaluate()


#: functions of a product that is divided by, and their powers that a product takes away
OF_PRODUCTS = {
    "erf(u)": (tp.erf, 1, lambda u: np.vectorize(math.erf)(u)),
    "1 − cos u": (lambda u: 1 - tp.cos(u), 2, lambda u: 1 - np.cos(u)),
}


@pytest.mark.parametrize("name", [pytest.param("erf(u)", marks=pytest.mark.long), "1 − cos u"])
def test_functions_of_a_product_take_its_poles_away_together(name):
    function, order, values = OF_PRODUCTS[name]

    def program(power):
        @tp.program
        def p(x: tp.Vector, y: tp.Vector):
            return tp.avg(tp.cos(x) * function(x * y) / (x * y) ** power)

        return p

    # a grid with no node at 0, symmetric about it
    nodes, step = np.linspace(-9, 9, 3000, retstep=True)
    weights = step * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    product = np.multiply.outer(nodes, nodes)
    wanted = (weights * np.cos(nodes)) @ (values(product) / product**order) @ weights
    value = tp.derive(program(order)).evaluate()["return"].value
    assert value == pytest.approx(wanted, abs=1e-6)
    assert value != pytest.approx(weights @ (values(product) / product**order) @ weights, abs=0.01)
    # one pole more stays
    with pytest.raises(tp.TplimitsError, match=r"moment not established|no finite second moment"):
        tp.derive(program(order + 1)).evaluate()
