"""Panels: where they end, what they integrate, and that they are halved until they are fine enough."""

from __future__ import annotations

import math

import numpy
import pytest
import scipy.integrate
import scipy.stats
import sympy

from tplimits.numbers.moments import kinks
from tplimits.numbers.moments.function import moment
from tplimits.numbers.moments.hermite import hermite_rows
from tplimits.numbers.moments.kinks import kinked
from tplimits.numbers.moments.panels import _panel_sums, nodes_between, scale_edges, settled_edges, with_kinks
from tplimits.program.nodes import functions as heads
from tplimits.program.nodes.digits import in_digits
from tplimits.program.nodes.rules import REACH

x = sympy.Symbol("x", real=True)


def test_nodes_integrate_polynomials_on_every_panel():
    edges = numpy.array([[-2.0, -0.5, 0.25, 3.0], [0.0, 0.0, 1.0, 1.5]])
    for count in (3, 16):
        z, w = nodes_between(edges, count)
        assert z.shape == w.shape == (2, 3 * count)
        for power in range(2 * count if count < 10 else 12):
            expected = (edges[:, 1:] ** (power + 1) - edges[:, :-1] ** (power + 1)) / (power + 1)
            assert (w * z**power).reshape(2, 3, count).sum(axis=2) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("deviation", [0.0, 0.1, 1.0, 7.0, 40.0])
def test_edges_are_symmetric_and_reach_both_ends(deviation):
    edges = scale_edges(deviation)
    assert (edges == -edges[::-1]).all() and (numpy.diff(edges) > 0).all()
    assert edges[-1] == REACH and 0.0 in edges and numpy.diff(edges).max() <= 0.5 + 1e-12
    if deviation > 1:  # in x = deviation · z panels no wider than a function of scale one needs
        near = edges[(edges > 0) & (edges * deviation < 2)]
        assert len(near) >= 3


def test_kinks_are_edges_at_every_deviation():
    edges = numpy.array([-14.0, -1.0, 0.0, 2.0, 14.0])
    cut = with_kinks(edges, (3.0, 0.0, -1e9), numpy.array([1.0, 2.0, 1e-6]))
    assert cut.tolist() == [
        [-14, -14, -1, 0, 2, 3, 14],
        [-14, -14, -1, 0, 1.5, 2, 14],
        [-14, -14, -1, 0, 2, 14, 14],
    ]
    assert with_kinks(numpy.array([-14.0, 1.0, 14.0]), (0.0,), numpy.array([1.0])).tolist() == [[-14, 0, 1, 14]]


@pytest.mark.parametrize(("f", "steep"), [(sympy.tanh(15 * x), True), (sympy.tanh(x), False), (abs(x - 1) ** 3, False)])
def test_panels_are_halved_where_a_function_is_steep(f, steep):
    function = kinked(f, x)
    edges, doubt = settled_edges(function, 0.8, 1.3, 30)
    start = scale_edges(1.3)
    assert set(start) <= set(edges) and (len(edges) > len(start)) is steep and (numpy.diff(edges) > 0).all()
    assert doubt < 1e-12
    fresh = sorted(set(edges) - set(start))
    assert not fresh or max(map(abs, fresh)) < 1, "where it is steep"
    for deviation in (0.8, 1.0, 1.3):
        cut = with_kinks(edges, function.cuts, numpy.array([deviation]))[0]
        z, w = nodes_between(cut)
        density = numpy.exp(-(z**2) / 2) / numpy.sqrt(2 * numpy.pi)
        expected = scipy.integrate.quad(
            lambda t, s=deviation: (
                float(function(numpy.array(s * t))) ** 2 * numpy.exp(-(t**2) / 2) / numpy.sqrt(2 * numpy.pi)
            ),
            *(-12, 12),
            points=[0, 1 / deviation],
            limit=400,
        )[0]
        assert (function(deviation * z) ** 2 * density * w).sum() == pytest.approx(expected, rel=1e-10)


def test_the_integral_of_every_panel_is_its_own():
    """Kinks cut panels in parts, which belong to the panel that they stand in."""
    f, edges = kinked(abs(x - 1) + abs(x + 3), x), numpy.array([-6.0, -4.0, -1.0, 0.5, 2.0, 6.0])
    sums, root = _panel_sums(f, edges, 1.5, 3.0)
    for low, high, found in zip(edges, edges[1:], sums, strict=False):
        inside = [z for z in (1 / 1.5, -2.0) if low < z < high]
        expected = scipy.integrate.quad(
            lambda z: (abs(1.5 * z - 1) + abs(1.5 * z + 3)) * numpy.cos(3 * z + 1) * numpy.exp(-(z**2) / 4),
            low,
            high,
            points=inside or None,
            epsabs=1e-13,
        )[0]
        assert found == pytest.approx(expected, abs=1e-11)
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(180)
    square = (weights * (abs(1.5 * nodes - 1) + abs(1.5 * nodes + 3)) ** 2).sum() / weights.sum()
    assert root**2 == pytest.approx(square, rel=1e-3)


@pytest.mark.parametrize(
    ("function", "parity"),
    [
        (sympy.sign(x), 1),
        (x * sympy.Abs(x), 1),
        (x**3 * sympy.tanh(x), 0),
        (x * heads.sigmoid(x) - x / 2, 0),
        (heads.sigmoid(x) - sympy.Rational(1, 2), 1),
        (heads.sigmoid(x) - sympy.Rational(1, 2) - sympy.Rational(1, 10**12), None),
        (10**-30 * (x + x**2), None),
        (heads.relu(x) + heads.relu(-x), 0),
        (heads.relu(x - 100), None),
        (sympy.exp(x), None),
        (1 / x, 1),
        # nothing, or the same number, to all digits wherever values are looked at
        (heads.sigmoid(x - 200), None),
        (heads.sigmoid(-x - 200), None),
        (1 / (1 + sympy.exp(-x + 200)), None),
        (sympy.erf(x - 50), None),
        (heads.gelu(x - 30), None),
        (sympy.exp(-1000 * (x - 8) ** 2), None),
        (heads.relu(sympy.exp(-1000 * (x - 8) ** 2)), None),
        (heads.sigmoid(x - 200) - heads.sigmoid(x + 200), 0),
        (1 / (1 + sympy.exp(-x)) - sympy.Rational(1, 2), 1),
    ],
    ids=str,
)
def test_parity_is_seen_by_algebra(function, parity):
    assert kinked(sympy.sympify(function), x).parity == parity


@pytest.mark.parametrize(("sharp", "correlation"), [(300, 0.5), (300, -0.6), (40, 0.0)])
def test_moments_of_functions_that_are_flat_around_zero(sharp, correlation):
    """E Φ(k(u − 1)) Φ(k(u′ − 1)) = P(u + z/k > 1, u′ + z′/k > 1), of z and z′ of their own."""
    u, v = sympy.symbols("u v", real=True)

    def gate(t):
        return (1 + sympy.erf((t - sharp) / sympy.sqrt(2))) / 2

    value, error = moment(gate(u) * gate(v), (u, v))(sharp**2, correlation * sharp**2, sharp**2)
    spread = math.sqrt(1 + sharp**-2)

    def orthant(rho):
        law = scipy.stats.multivariate_normal(cov=[[1.0, rho], [rho, 1.0]])
        return float(law.cdf([-1 / spread, -1 / spread]))

    rho = correlation / spread**2
    assert abs(float(value) - orthant(rho)) < 4 * float(error) + 1e-7
    if rho:  # an even function would have the mean of both correlations
        assert abs(float(value) - (orthant(rho) + orthant(-rho)) / 2) > 1e-2


@pytest.mark.parametrize(
    "exponent",
    [-(10**10) * (x - sympy.Rational(1, 3)) ** 2, -(10**8) * (x - sympy.Rational(1, 3)) ** 2 - 3],
    ids=str,
)
@pytest.mark.parametrize("written", [lambda e: e, sympy.expand])
def test_peaks_are_where_exponents_are_largest(exponent, written):
    value = hermite_rows(kinked(sympy.exp(written(exponent)), x), numpy.array([1.0])).coefficients[0, 0]
    k, c = -float(exponent.diff(x, 2)), float(exponent.subs(x, sympy.Rational(1, 3)))
    expected = math.exp(c - k / (1 + k) / 18) / math.sqrt(1 + k)
    assert float(value) == pytest.approx(expected, rel=1e-9)


def _steep_mean(f, places):
    """E f(g), nodes crowded at some places."""
    near = numpy.geomspace(1e-9, 3, 90)
    ends = numpy.unique(
        numpy.concatenate([numpy.linspace(-10, 10, 81), *(t + s * near for t in places for s in (1, -1))])
    )
    x, w = numpy.polynomial.legendre.leggauss(16)
    g = ((ends[1:] + ends[:-1])[:, None] + numpy.diff(ends)[:, None] * x).ravel() / 2
    w = (numpy.diff(ends)[:, None] * w).ravel() / 2 * numpy.exp(-(g**2) / 2) / math.sqrt(2 * math.pi)
    return float(w @ f(g))


@pytest.mark.parametrize("at", [0.0, -1.37])
@pytest.mark.parametrize("k", [300.0, 1e6])
def test_functions_that_turn_between_nodes(k, at):
    """Of one variable, and of two that are nearly or exactly the same: peaks, steps and corners off any edge."""
    u, v = sympy.symbols("u v", real=True)
    t, e = numpy.tanh, numpy.exp
    for f, plain in (
        (lambda z: sympy.tanh(k * (z - at)) ** 2, lambda z: t(k * (z - at)) ** 2),
        (lambda z: heads.softplus(k * (z - at)) / k, lambda z: numpy.logaddexp(0, k * (z - at)) / k),
        (lambda z: 1 + sympy.exp(-((k * (z - at)) ** 2)), lambda z: 1 + e(-((k * (z - at)) ** 2))),
        (
            lambda z: 1 / (1 + (k * (z - at)) ** 2) + sympy.tanh(z) ** 2,
            lambda z: 1 / (1 + (k * (z - at)) ** 2) + t(z) ** 2,
        ),
    ):
        value, error = moment(f(u), (u,))(1.0)
        assert abs(float(value) - _steep_mean(plain, [at])) < 4 * float(error) + 1e-13
        value, error = moment(f(u) * f(v), (u, v))(1.0, 1.0, 1.0, det=0.0)
        assert abs(float(value) - _steep_mean(lambda g, plain=plain: plain(g) ** 2, [at])) < 4 * float(error) + 1e-12


def test_a_peak_that_is_nothing_elsewhere_makes_no_even_function():
    x = sympy.Symbol("x", real=True)
    assert kinked(1 + sympy.exp(-1000000 * (x - sympy.Rational(41, 100)) ** 2), x).parity is None
    assert kinked(1 + sympy.exp(-1000000 * x**2), x).parity == 0
    assert kinked(x * heads.sigmoid(x) * (1 - heads.sigmoid(x)), x).parity == 1


@pytest.mark.parametrize("correlation", [0.0, 0.3, -0.9])
def test_exponentials_of_a_product_may_overflow_alone(correlation):
    u, v = sympy.symbols("u v", real=True)

    def bump(t):
        return sympy.exp(80 * t) * sympy.exp(-100 * t**2) * sympy.exp(-16)  # exp(−(10(t − 0.4))²)

    value, error = moment(bump(u) * bump(v), (u, v))(1.0, correlation, 1.0)
    # the product of two Gaussian densities and a bump: det(1 + 200 C)^(−1/2) exp(−mᵀ (C + 1/200)⁻¹ m/2), m = 0.4
    C, m = numpy.array([[1.0, correlation], [correlation, 1.0]]), numpy.full(2, 0.4)
    exponent = m @ numpy.linalg.solve(C + numpy.eye(2) / 200, m) / 2
    expected = math.exp(-exponent) / math.sqrt(numpy.linalg.det(numpy.eye(2) + 200 * C))
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=4 * float(error))


@pytest.mark.parametrize(
    ("written", "stable"),
    [
        (sympy.log(1 + sympy.exp(40 * x)), heads.softplus(40 * x)),
        (sympy.exp(100 * x) / (1 + sympy.exp(50 * x)) ** 2, heads.sigmoid(50 * x) ** 2),
        ((sympy.exp(90 * x) - 1) / (sympy.exp(90 * x) + 1), sympy.tanh(45 * x)),
    ],
)
def test_numbers_that_doubles_overflow_on_the_way_to(written, stable):
    """They were refused: the argument of an exponential is 40 · 14 deviations far out."""
    for f in (written**2, written * heads.relu(x - 0.3)):
        value, error = moment(f, (x,))(1.9)
        expected, _ = moment(f.xreplace({written: stable}), (x,))(1.9)
        assert abs(value - expected) <= error + 1e-12 * abs(expected)


@pytest.mark.parametrize("variance", [0.3, 0.0052, 1e-5])
def test_what_lies_far_out_without_exponentials_is_nothing(variance):
    """E relu(z − 1), z at 13.9 and 316 deviations below 1, was refused."""
    value, error = moment(heads.relu(x - 1) * heads.softplus(x), (x,))(variance)
    s = math.sqrt(variance)
    expected, _ = scipy.integrate.quad(
        lambda z: (z - 1) * math.log1p(math.exp(z)) * math.exp(-((z / s) ** 2) / 2) / s / math.sqrt(2 * math.pi),
        1,
        1 + 12 * s,
        epsabs=0,
        points=[1 + s],
    )
    assert abs(value - expected) <= error + 1e-9 * abs(expected) + 1e-30


def test_numbers_are_asked_no_further_than_they_show_a_parity(monkeypatch):
    """Digits of long functions take seconds; one place and its mirror image tell that x + x² has none."""
    asked = []
    monkeypatch.setattr(kinks, "in_digits", lambda *given: asked.append(given) or in_digits(*given))
    assert kinked(x + x**2, x).parity is None and len(asked) == 2
    assert kinked(x**3, x).parity == 1 and len(asked) == 2 + 8
