"""Moments without a closed form, what every moment has in common, and what is refused."""

import math
from dataclasses import replace

import mpmath
import numpy
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from tplimits.errors import EvaluationError
from tplimits.numbers.moments.function import closed_code, moment, with_constants
from tplimits.numbers.moments.linear import products
from tplimits.numbers.moments.mehler import mehler, mehler_sum
from tplimits.numbers.moments.panels import scale_edges
from tplimits.program.nodes import functions as heads
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.rules import REACH

X, Y, Z = sympy.symbols("x y z", real=True)
SMOOTH = {
    "tanh": sympy.tanh,
    "softplus": heads.softplus,
    "swish": lambda t: t * heads.sigmoid(t),
    "mish": lambda t: t * sympy.tanh(heads.softplus(t)),
    "slope of tanh": lambda t: 1 - sympy.tanh(t) ** 2,
}


def by_trapezoids(integrand, c11, c12, det, count=1000):
    """(E F, E|F|) by the trapezoidal rule, exponentially accurate for analytic functions."""
    z = numpy.linspace(-12, 12, count)
    w = 24 / (count - 1) * numpy.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    y = c12 / math.sqrt(c11) * z[:, None] + math.sqrt(det / c11) * z[None, :]
    values = evaluate(integrand, {X: math.sqrt(c11) * z[:, None], Y: y})
    return w @ values @ w, w @ abs(values) @ w


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize(("c11", "c22"), [(1e-6, 1.0), (1.0, 1.0), (0.3, 9.0), (25.0, 4.0)])
def test_expansions_agree_with_the_trapezoidal_rule_and_know_their_error(name, c11, c22):
    integrand = SMOOTH[name](X) * SMOOTH[name](Y)
    found = moment(integrand, (X, Y))
    assert found.route == "expansion"
    for rho in (0.0, 1e-6, -0.5, 0.9, 0.999999, -(1 - 1e-9), 1.0, -1.0):
        c12, det = rho * math.sqrt(c11 * c22), c11 * c22 * (1 - rho * rho)
        expected, size = by_trapezoids(integrand, c11, c12, det)
        value, error = found(c11, c12, c22, det=det)
        assert abs(value - expected) <= 1e-9 * size
        assert abs(value - expected) <= error + 1e-14 * size
        assert error <= 1e-8 * size


def relu_smoothed(m, s):
    return m * mpmath.ncdf(m / s) + s * mpmath.npdf(m / s) if s else max(m, mpmath.mpf(0))


def shifted_smoothed(m, s):
    return relu_smoothed(m - 1, s)


def elu_smoothed(m, s):
    if not s:
        return m if m > 0 else mpmath.expm1(m)
    return relu_smoothed(m, s) + mpmath.exp(m + s * s / 2) * mpmath.ncdf(-(m + s * s) / s) - mpmath.ncdf(-m / s)


@pytest.mark.parametrize(
    ("head", "smoothed", "kink"),
    [
        (lambda t: heads.where(t, t, sympy.exp(t) - 1), elu_smoothed, 0),
        (lambda t: heads.relu(t - 1), shifted_smoothed, 1),
    ],
)
@pytest.mark.parametrize(
    ("c11", "c22", "rho"), [(1, 1, 0.3), (1, 1, 0.99), (2, 0.5, 0.9999), (1, 1, 1.0), (100, 1, -0.9), (1, 4, 1 - 1e-9)]
)
def test_kinked_functions_agree_with_mpmath(head, smoothed, kink, c11, c22, rho):
    c12, det = rho * math.sqrt(c11 * c22), c11 * c22 * (1 - rho) * (1 + rho)
    s, deviation = mpmath.sqrt(mpmath.mpf(det) / c11), mpmath.sqrt(c11)
    slope = mpmath.mpf(c12) / deviation
    near = [kink / slope + u * s / slope for u in (-6, -2, 0, 2, 6)]
    ends = sorted({-12, -6, -3, -1, 0, 1, 3, 6, 12, kink / deviation, *(e for e in near if abs(e) < 12)})
    expected = mpmath.quad(
        lambda z: smoothed(deviation * z, mpmath.mpf(0)) * smoothed(slope * z, s) * mpmath.npdf(z), ends
    )
    value, error = moment(head(X) * head(Y), (X, Y))(c11, c12, c22, det=det)
    assert abs(value - expected) <= 1e-9 * abs(expected)
    assert abs(value - expected) <= error + 1e-12 * abs(expected)  # mpmath works to 1e-13


def test_one_variable():
    squared = moment(sympy.tanh(X) ** 2, (X,))
    values, errors = squared(numpy.array([0.0, 1e-8, 1.0]))
    expected = mpmath.quad(lambda z: mpmath.tanh(z) ** 2 * mpmath.npdf(z), [-12, 0, 12])
    assert values[0] == 0
    assert values[1] == pytest.approx(1e-8 - 2e-16, rel=1e-12)  # tanh² = x² − 2x⁴/3 + …, E x⁴ = 3c²
    assert abs(values[2] - expected) <= errors[2] + 1e-15
    assert float(moment(heads.relu(X) ** 2, (X,))(3.0)[0]) == pytest.approx(1.5, rel=1e-15)
    assert float(moment(heads.relu(X), (X,))(3.0)[0]) == pytest.approx(math.sqrt(3 / (2 * math.pi)), rel=1e-15)


def far_out(monkeypatch, rhos):
    """E tanh tanh and its error at the variances 144 and 130, where nested integrals are the last resort."""
    calls = []
    monkeypatch.setattr(
        "tplimits.numbers.moments.function.nested", lambda *law: calls.append(law) or (math.nan, math.inf)
    )
    mean = moment(sympy.tanh(X) * sympy.tanh(Y), (X, Y))
    value, error = mean(144.0, rhos * math.sqrt(144.0 * 130.0), 130.0)
    return value, error, len(calls)


@pytest.mark.parametrize(("low", "high", "few"), [(0.95, 0.975, 2), (0.987, 0.993, 8)])
def test_many_correlated_pairs_of_large_variance_are_expanded_further(low, high, few, monkeypatch):
    rhos = numpy.linspace(low, high, few + 1)
    value, error, calls = far_out(monkeypatch, rhos)
    assert not calls
    assert (error <= 1e-10 * value).all()
    for rho, found in zip(rhos, value, strict=True):
        c12, det = rho * math.sqrt(144.0 * 130.0), 144.0 * 130.0 * (1 - rho**2)
        expected, _ = by_trapezoids(sympy.tanh(X) * sympy.tanh(Y), 144.0, c12, det, count=1500)
        assert abs(found - expected) <= 1e-10
    _, _, calls = far_out(monkeypatch, rhos[-few:])
    assert calls == few, "so few are integrated one by one"


def _slope_less_half(t):
    """t σ(t)(1 − σ(t)), odd, which algebra does not see."""
    return t * heads.sigmoid(t) * (1 - heads.sigmoid(t))


def test_means_at_small_correlations_keep_their_digits_where_parity_is_not_seen():
    """E f(g) f(g') = (E f(z) z)² ρ + O(ρ³); even coefficients are zero, their rounding is not."""
    rho = numpy.array([1e-3, 1e-6, -1e-9, 1e-12])
    z, w = numpy.polynomial.hermite_e.hermegauss(120)
    first = (w * z * evaluate(_slope_less_half(X), {X: z})).sum() / math.sqrt(2 * math.pi)
    value, error = moment(_slope_less_half(X) * _slope_less_half(Y), (X, Y))(1.0, rho, 1.0)
    numpy.testing.assert_allclose(value[1:], first**2 * rho[1:], rtol=1e-11)
    assert (error <= 1e-10 * abs(value)).all() and (value[0] != first**2 * rho[0])


def test_where_a_mean_changes_its_sign_it_is_not_integrated_pair_by_pair(monkeypatch):
    """E f(g) f(g') of 4000 correlations beside the root of that mean: 1e-14 of √(E f² E f²) is exact enough."""
    f = lambda t: _slope_less_half(t) + heads.sigmoid(t) - sympy.Rational(1, 2) + sympy.cos(t) / 9  # noqa: E731
    mean = moment(f(X) * f(Y), (X, Y))
    low, high = -1.0, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if float(mean(1.0, middle, 1.0)[0]) > 0 else (middle, high)
    called = []
    monkeypatch.setattr("tplimits.numbers.moments.function.nested", lambda *law: called.append(law) or (0.0, 1.0))
    rho = low + numpy.linspace(-1e-8, 1e-8, 4000)
    value, error = mean(1.0, rho, 1.0)
    assert not called and (numpy.sign(value) == numpy.sign(rho - low))[abs(rho - low) > 1e-13].all()
    assert error.max() < 1e-14


@pytest.mark.parametrize("name", SMOOTH)
def test_inputs_with_themselves_and_their_negatives_are_integrated_together(name, monkeypatch):
    """300 variances up to 30, where order 256 does not settle at correlation ±1; by the trapezoidal rule."""
    f, variances = SMOOTH[name], numpy.linspace(4.0, 30.0, 300)
    z = numpy.linspace(-12, 12, 4001)
    w = 24 / 4000 * numpy.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    right, left = (evaluate(f(X), {X: sign * numpy.sqrt(variances)[:, None] * z}) for sign in (1, -1))
    monkeypatch.setattr("tplimits.numbers.moments.function.nested", None)
    for sign, other in ((1, right), (-1, left)):
        value, error = moment(f(X) * f(Y), (X, Y))(variances, sign * variances, variances)
        assert (abs(value - (right * other) @ w) <= error + 1e-13 * abs(value)).all()
        assert (error <= 1e-10 * abs(value)).all()


def test_functions_that_do_not_separate():
    larger = moment(heads.maximum(X, Y), (X, Y))
    assert larger.route == "forms"
    c11, c12, c22 = numpy.array([1.0, 1.0, 2.0]), numpy.array([0.5, 0.0, 1.0]), numpy.array([2.0, 0.0, 1.0])
    values, errors = larger(c11, c12, c22)
    expected = numpy.sqrt((c11 + c22 - 2 * c12) / (2 * math.pi))
    assert (abs(values - expected) <= errors + 1e-15).all() and (errors < 1e-8).all()
    three = moment(heads.step(X) * heads.step(Y) * heads.step(Z), (X, Y, Z))
    assert three.route == "quadrature"
    expected = 1 / 8 + sum(map(math.asin, (0.5, 0.2, 0.3))) / (4 * math.pi)
    assert float(three(1.0, 0.5, 0.2, 1.0, 0.3, 1.0)[0]) == pytest.approx(expected, rel=1e-9)


def test_sums_of_products_and_constants():
    a = sympy.Symbol("a", real=True)
    integrand = heads.relu(X) * heads.relu(Y) + a * X * Y
    found = moment(integrand, (X, Y), with_constants({a: 0.5}))
    assert found.route == "closed"
    assert float(found(2.0, 2.0, 2.0)[0]) == pytest.approx(2.0, rel=1e-15)
    shifted = moment(sympy.exp(X) * sympy.exp(-Y / 2), (X, Y))
    assert shifted.route == "closed"
    assert float(shifted(1.0, 0.5, 2.0)[0]) == pytest.approx(math.exp(0.5), rel=1e-14)


def test_rows_and_the_compiled_sum():
    found = moment(sympy.tanh(X) * sympy.tanh(Y), (X, Y))
    left, right = found.rows(0, numpy.array([1.0, 2.0])), found.rows(1, numpy.array([0.5]))
    value = mehler_sum(left.coefficients[1], right.coefficients[0], 0.7, 64)
    assert value == pytest.approx(float(found(2.0, 0.7, 0.5)[0]), rel=1e-12)
    assert mehler_sum.py_func(left.coefficients[1], right.coefficients[0], 0.7, 64) == pytest.approx(value, rel=1e-14)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["relu", "gelu", "tanh", "softplus", "step"]),
    st.floats(1e-4, 50),
    st.floats(1e-4, 50),
    st.floats(-1, 1),
)
def test_symmetry_and_positivity(name, c11, c22, rho):
    head = {"relu": heads.relu, "gelu": heads.gelu, "step": heads.step, **SMOOTH}[name]
    found = moment(head(X) * head(Y), (X, Y))
    c12 = rho * math.sqrt(c11) * math.sqrt(c22) * (1 - 1e-15)
    there, back = found(c11, c12, c22), found(c22, c12, c11)
    assert abs(there[0] - back[0]) <= there[1] + back[1]
    first, second = found(c11, c11, c11), found(c22, c22, c22)
    room = math.sqrt(first[0] + first[1]) * math.sqrt(second[0] + second[1])
    assert abs(there[0]) <= room * (1 + 1e-12) + there[1]  # Cauchy–Schwarz: the Gram of a pair is positive


def test_single_precision_goes_in_and_comes_out():
    found = moment(heads.relu(X) * heads.relu(Y), (X, Y))
    value, error = found(*(numpy.float32(c) for c in (1.0, 0.3, 2.0)))
    assert value.dtype == error.dtype == numpy.float32
    assert abs(float(value) - float(found(1.0, float(numpy.float32(0.3)), 2.0)[0])) <= error


def test_shapes_broadcast_and_may_be_empty():
    found = moment(sympy.tanh(X) * sympy.tanh(Y), (X, Y))
    assert found(numpy.ones((3, 1)), 0.5 * numpy.ones((3, 4)), numpy.ones((1, 4)))[0].shape == (3, 4)
    assert found(numpy.ones(0), numpy.ones(0), numpy.ones(0))[0].shape == (0,)


@pytest.mark.parametrize(
    ("law", "text"),
    [
        ((1.0, math.nan, 1.0), "finite"),
        ((-1.0, 0.0, 1.0), "negative"),
        ((1.0, 1.1, 1.0), "larger"),
        ((1.0,), "needs 3"),
    ],
)
def test_laws_that_are_none_are_refused(law, text):
    with pytest.raises(EvaluationError, match=text):
        moment(heads.relu(X) * heads.relu(Y), (X, Y))(*law)


def test_integrands_that_have_no_moment_are_refused():
    with pytest.raises(EvaluationError, match="Dirac"):
        moment(heads.step(X).diff(X), (X,))
    with pytest.raises(EvaluationError, match="no value for z"):
        moment(X * Z, (X, Y))
    with pytest.raises(EvaluationError, match="finite"):
        moment(sympy.log(X), (X,))(1.0)
    with pytest.raises(EvaluationError, match="no closed form"):
        closed_code([moment(sympy.tanh(X), (X,))])


def test_a_law_of_three_that_is_not_positive_is_refused():
    with pytest.raises(EvaluationError, match="not positive semidefinite"):
        moment(X * Y * Z, (X, Y, Z))(1.0, 0.9, -0.9, 1.0, 0.9, 1.0)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        ("log(x**2)", math.pi**2 / 2 + (0.5772156649015329 + math.log(2)) ** 2),
        ("Abs(x)**(-2/5)", 2**-0.4 * math.gamma(0.1) / math.sqrt(math.pi)),
        ("log(Abs(x))*sign(x)", math.pi**2 / 8 + (0.5772156649015329 + math.log(2)) ** 2 / 4),
    ],
)
def test_squares_of_what_is_infinite_somewhere(f, expected):
    """E f(g)² at correlation one, where no expansion settles: a hole around the pole would be counted."""
    x, y = sympy.symbols("x y", real=True)
    g = sympy.sympify(f, locals={"x": x})
    value, error = moment(g * g.xreplace({x: y}), (x, y))(1.0, 1.0, 1.0)
    assert value == pytest.approx(expected, abs=max(float(error), 1e-12)) and error < 1e-9
    near, bound = moment(g * g.xreplace({x: y}), (x, y))(1.0, 0.999, 1.0)
    assert near < value and bound < 1e-6


def test_a_pole_that_panels_cannot_come_close_to_is_in_the_error():
    x, y = sympy.symbols("x y", real=True)
    value, error = moment(abs(x) ** -0.49 * abs(y) ** -0.49, (x, y))(1.0, 1.0, 1.0)
    assert 1e-4 < abs(value - 2**-0.49 * math.gamma(0.01) / math.sqrt(math.pi)) < error


def test_a_mean_further_out_than_panels_look_is_refused():
    x, y = sympy.symbols("x y", real=True)
    with pytest.raises(EvaluationError, match="lies further out than quadrature looks, at 14 standard deviations"):
        moment(sympy.tanh(x) * sympy.exp(12 * x) * sympy.tanh(y) * sympy.exp(12 * y), (x, y))(1.0, 1.0, 1.0)


def test_a_single_power_that_two_functions_have_in_common():
    """⟨x|relu(x)⟩ is ρ/2 for standard normals: of Hermite powers, the first alone."""
    found = moment(sympy.tanh(X) * sympy.tanh(Y), (X, Y))
    rows = found.rows(0, numpy.array([1.0]))
    alone = numpy.zeros_like(rows.coefficients)
    alone[:, 1] = 2.0
    one = replace(rows, coefficients=alone, tail=0 * rows.tail, error=0 * rows.error, norm=2.0 + 0 * rows.norm)
    places = numpy.zeros(2, numpy.intp)
    values, errors = mehler(one, one, places, places, numpy.array([0.3, -1.0]))
    assert values.tolist() == pytest.approx([1.2, -4.0], rel=1e-14) and (errors < 1e-12).all()


@pytest.mark.parametrize("deviation", [1e-3, 0.5, 3.0, 16.0, 40.0])
def test_panels_reach_from_end_to_end_without_a_gap(deviation):
    edges = scale_edges(deviation)
    assert edges[0] == -edges[-1] == pytest.approx(-REACH) and (edges == -edges[::-1]).all()
    assert numpy.diff(edges).min() > 0 and numpy.diff(edges).max() <= 0.5 + 1e-12
    assert (abs(edges) <= 0.5 / max(deviation, 1.0) + 1e-12).sum() >= 3  # half a unit of x, or of z where that is less


@pytest.mark.parametrize("f", [sympy.sqrt(abs(X) + 1), abs(X - 1) ** sympy.Rational(3, 2) + 1, sympy.tanh(X + 1)])
def test_without_variance_a_mean_is_the_value_at_zero(f):
    """Of one, of both, of neither of the variables."""
    g = f.xreplace({X: 2 * Y})
    found, at = moment(f * g, (X, Y)), float(f.subs(X, 0))
    value, error = found(0.0, 0.0, 0.0)
    assert value == pytest.approx(at * at, abs=float(error) + 1e-13) and error < 1e-6
    alone, _ = moment(f, (X,))(1.44)
    value, error = found(1.44, 0.0, 0.0)
    assert value == pytest.approx(float(alone) * at, abs=float(error) + 1e-9) and error < 1e-6


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("wave", [sympy.sin(2 * Y), sympy.cos(Y / 2), sympy.exp(Y / 3)], ids=str)
def test_powers_beside_waves_are_those_of_nodes(degree, wave):
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(70)
    weights /= weights.sum()
    u = 1.2**0.5 * nodes[:, None] + 0 * nodes
    v = 0.5 / 1.2**0.5 * nodes[:, None] + (0.9 - 0.25 / 1.2) ** 0.5 * nodes
    expected = float(weights @ (u**degree * sympy.lambdify(Y, wave, "numpy")(v)) @ weights)
    value, error = moment(X**degree * wave, (X, Y))(1.2, 0.5, 0.9)
    assert value == pytest.approx(expected, rel=1e-10, abs=1e-12) and error < 1e-9


def test_extended_precision_stays_where_a_form_is_closed_and_is_rounded_where_none_is():
    kernel = [numpy.longdouble(c) for c in (1.0, 0.3, 2.0)]
    for integrand, digits in ((heads.relu(X) * heads.relu(Y), 1e-17), (sympy.tanh(X) * sympy.tanh(Y), 1e-9)):
        value, error = moment(integrand, (X, Y))(*kernel)
        plain = moment(integrand, (X, Y))(1.0, 0.3, 2.0)[0]
        assert value.dtype == error.dtype == numpy.longdouble and abs(value - plain) < 1e-9
        assert digits < 1e-16 or value == plain, "computed in doubles"


@pytest.mark.parametrize(
    ("function", "separates"),
    [
        (sympy.exp(X + 2 * Y) + X * Y, True),
        (sympy.exp(X * Y) + X * Y, False),
        (X * sympy.exp(X - Y) - sympy.tanh(Y), True),
        (sympy.tanh(X + Y) * X + Y, False),
        (sympy.exp(X + Y + 1) * X - 3, True),
    ],
    ids=str,
)
def test_sums_of_products_are_told_from_other_functions(function, separates):
    pairs = products(function, (X, Y))
    assert (pairs is not None) is separates
    if separates:
        assert all(not f.has(Y) and not h.has(X) for f, h in pairs)
        assert sympy.expand(sum(f * h for f, h in pairs) - function, power_exp=True).simplify() == 0
