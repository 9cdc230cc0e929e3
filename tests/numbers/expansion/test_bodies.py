"""Jets of every function of the language, against difference quotients of the function itself."""

from __future__ import annotations

import itertools

import numpy
import pytest
import sympy
from sympy import Rational, Symbol

from tplimits.errors import NoLimitError
from tplimits.numbers.expansion.averages import ROOT, Averages
from tplimits.numbers.expansion.bodies import Bodies
from tplimits.numbers.expansion.jets import Given, Jet
from tplimits.numbers.expansion.nodes import Frame, Rough
from tplimits.numbers.expansion.resolutions import divided
from tplimits.program.nodes import functions as f
from tplimits.program.nodes.entries import GaussMean, width_symbol
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS, evaluate
from tplimits.program.nodes.functions import truncated

g, a, b, c, z = (Symbol(name, real=True) for name in "gabcz")
n, k = width_symbol("n"), width_symbol("k")
RATIO = Rational(5, 2)
#: n^(−1/2)
root = Symbol("ε", positive=True)
VALUES, SHIFTS, ROOTS = numpy.array([0.3, 0.7]), numpy.array([0.4, -1.1]), numpy.array([0.6, -0.2])
COVARIANCE = numpy.array([[2.0, 0.5], [0.5, 1.0]])


class elu(f.Real):
    """A head that is known by its definition and its numbers alone."""

    def definition(self):
        return self.args[0] * f.step(self.args[0]) + (sympy.exp(self.args[0]) - 1) * (1 - f.step(self.args[0]))


ARRAY_FUNCTIONS[elu] = lambda x: numpy.where(x > 0, x, numpy.expm1(numpy.minimum(x, 0)))

BODIES = (
    *(a * b**2 - 3 * a, sympy.exp(a * b) / (1 + b), sympy.log(a + b), sympy.sqrt(a + b**2), (a + b) ** a),
    *(a ** Rational(-3, 2), sympy.tanh(a - b), sympy.sin(a) * sympy.cos(b), sympy.erf(a * b), f.gelu(a - b)),
    *(f.softplus(b), f.sigmoid(a), sympy.asin(a * b), sympy.acos(a), sympy.atanh(b), sympy.atan(a / b)),
    *(sympy.asinh(a), sympy.cosh(b) * sympy.sinh(a), f.relu(a - b), f.relu(b - a) ** 2, f.leaky_relu(a - b, c)),
    *(f.leaky_relu(b, a), sympy.Abs(a - b) * b, f.step(a) * b, a * f.step(a) * b, (a - b) * f.step(a - b)),
    *(sympy.sign(a - b) * b, a * f.stop_gradient(b), f.maximum(a, b**2), f.minimum(a, b**2), f.maximum(b, a) * a),
    *(f.minimum(b, a), f.where(a, a * b, b), f.where(-a, a, b * b), a + 1 / sympy.sqrt(n), a * b / n, c * a**2),
    *(sympy.sqrt(k) / sympy.sqrt(n) * a, sympy.tanh(a + b / sympy.sqrt(n)), a / k + b / n**2, sympy.exp(-1 / n) * a),
    *((1 + a / sympy.sqrt(k)) * b / sympy.sqrt(n), a / n ** Rational(3, 2), g * a**2, sympy.tanh(a * g + b)),
    *(g**2 * b / sympy.sqrt(n), sympy.sin(g + a * b) * g, sympy.exp(-(g**2)) * a),
    *(elu(a - b), elu(b - a) * a, elu(a * b) ** 2),
    *(truncated(a * b, Rational(3, 2)), truncated(g * a + b, sympy.Integer(2)) * b),
    *(GaussMean(sympy.tanh(a * z + b), z), GaussMean(sympy.cos(b * z * g), z) * a),
)


def made(size=None):
    """Two scalars that move, one constant, one normal variable of a neuron."""
    averages = Averages(Frame(0.5, frozenset({0})), {"n": 1.0, "k": float(RATIO)})
    one, two = averages.given(["a", "b"], Given(VALUES, ROOTS, SHIFTS, COVARIANCE))
    bodies = Bodies(averages, {c: 0.2}, {n: 1.0, k: float(RATIO)}, str, size)
    return bodies, {a: one, b: two, g: Jet(averages.frame.normal("n"))}


def function(body, nodes):
    """The body at values of a, b and n^(−1/2), means over z by Gauss and Hermite."""
    points, weights = numpy.polynomial.hermite_e.hermegauss(40)

    body = body.xreplace({n: root**-2, k: RATIO * root**-2})

    def at(place):
        known = {a: place[0], b: place[1], c: 0.2, root: place[2], g: nodes[:, None], z: points}
        means = {m: evaluate(m.args[0], known) @ weights[:, None] / weights.sum() for m in body.atoms(GaussMean)}
        with numpy.errstate(all="ignore"):
            return numpy.broadcast_to(evaluate(body, {**known, **means}), (len(nodes), 1))[:, 0]

    return at


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_values_derivatives_and_shifts(body):
    """To second order in what moves: Σ F_i s_i + ½ Σ F_ij (C_ij + r_i r_j), n^(−1/2) one more coordinate."""
    bodies, known = made()
    found, nodes = bodies.evaluate(body, known), known[g].value.values
    at, h = function(body, nodes), 5e-4
    place, units = numpy.array([*VALUES, 0.0]), numpy.eye(3) * h
    first = [(at(place + u) - at(place - u)) / (2 * h) for u in units]
    second = numpy.empty((3, 3, len(nodes)))
    for i, j in itertools.product(range(3), repeat=2):
        u, v = units[i], units[j]
        second[i, j] = (at(place + u + v) - at(place + u - v) - at(place - u + v) + at(place - u - v)) / (4 * h * h)
    seconds = numpy.zeros((3, 3))
    roots = numpy.array([*ROOTS, 1.0])
    seconds[:2, :2] = COVARIANCE
    seconds += numpy.outer(roots, roots)
    shift = SHIFTS @ numpy.array(first[:2]) + numpy.einsum("ij,ijg->g", seconds, second) / 2

    def same(field, expected):
        seen = numpy.zeros(len(nodes)) if field is None else numpy.broadcast_to(field.values, len(nodes))
        assert abs(seen - expected).max() <= 1e-4 * max(1.0, abs(expected).max())

    same(found.value, at(place))
    for i, d in zip((0, 1, ROOT), first, strict=True):
        same(found.slopes.get(i), d)
    same(found.shift, shift)


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_values_at_one_width(body):
    bodies, known = made(size=50)
    at = function(body, known[g].value.values)
    found = bodies.evaluate(body, known).value.values
    expected = at(numpy.array([*VALUES, 50**-0.5]))
    assert abs(numpy.broadcast_to(found, expected.shape) - expected).max() < 1e-9


@pytest.mark.parametrize(
    "body",
    [
        *(sympy.sqrt(n) * a, n * a, a / n ** Rational(1, 4), a / n ** Rational(1, 3)),
        *(1 / (a - 0.3), sympy.sqrt(a - 0.3), sympy.log(a - 0.3), (a - 0.3) ** Rational(3, 2)),
        *(
            sympy.asin(a + 0.7 - 1e-8),
            sympy.acos(1e-8 - a - 0.7),
            sympy.atanh(a + 0.7 - 1e-8),
        ),  # within errors of means
        *(1 / (a - 0.3 + 1e-8), sympy.sqrt(a - 0.3 + 1e-8), sympy.log(a - 0.3 + 1e-8), f.relu(a - 0.3 + 1e-8)),
        *(sympy.asin(a + 0.7), sympy.acos(-a - 0.7), sympy.atanh(a + 0.7), sympy.log(a - b), sympy.sqrt(a - b)),
        *(f.relu(a - 0.3), sympy.Abs(a - 0.3), f.step(a - 0.3), f.maximum(a, 0.3), sympy.sign(a - 0.3)),
    ],
    ids=str,
)
def test_what_has_no_two_derivatives_at_a_limit_is_refused(body):
    bodies, known = made()
    with pytest.raises(NoLimitError):
        bodies.evaluate(body, known)


def test_polynomials_leave_a_variable_smooth():
    averages = Averages(Frame(0.5), {"n": 1.0})
    known = {g: Jet(averages.frame.normal("n"))}
    bodies = Bodies(averages, {}, {n: 1.0}, str)
    bodies.evaluate(g**3 - 2 * g, known)
    with pytest.raises(Rough):
        bodies.evaluate(sympy.tanh(g), known)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f.step(f.maximum(g, Rational(1, 3)) - g), lambda x: x < 1 / 3),
        (sympy.sign(f.minimum(g, Rational(1, 3)) - g), lambda x: -1.0 * (x > 1 / 3)),
        (f.step(g - f.minimum(f.maximum(g, -1), 2)), lambda x: x > 2),
        (f.step(f.where(g, Rational(1, 3), 5) - Rational(1, 3)), lambda x: x <= 0),
    ],
    ids=["maximum", "minimum", "clip", "where"],
)
def test_jumps_see_the_argument_that_a_maximum_returns(body, expected):
    """x − (x − y) is y but for rounding, which would decide the jump at half of all nodes."""

    def made(frame):
        normal = Jet(frame.normal("n"))
        found = Bodies(Averages(frame, {"n": 1.0}), {}, {n: 1.0}, str).evaluate(body, {g: normal})
        return found.value.values, normal.value.values

    found, nodes = divided("", 0.5, made)
    assert numpy.array_equal(found, expected(nodes))
