"""Nested rules for nearly collinear variables, against Gauss and Hermite and at no variance at all."""

from __future__ import annotations

import math

import numpy
import pytest
import scipy.integrate
import scipy.special
import sympy

from tplimits.numbers.moments.collinear import nested
from tplimits.numbers.moments.kinks import kinked

x = sympy.Symbol("x", real=True)


def test_without_variance_the_value_at_zero():
    f, h = kinked(sympy.cos(x) + 2, x), kinked(abs(x - 2), x)
    assert nested(f, h, 0.0, 0.0, 0.0, 0.0) == (6.0, 0.0)


def test_where_one_of_the_two_has_no_variance():
    """f(0) E |v − 2|, whichever of them it is."""
    f, h = kinked(sympy.cos(x) + 2, x), kinked(abs(x - 2), x)
    expected = 3 * float(distance(2.0, 0.0, 3**0.5))
    for value, error in (nested(f, h, 0.0, 0.0, 3.0, 0.0), nested(h, f, 3.0, 0.0, 0.0, 0.0)):
        assert value == pytest.approx(expected, rel=1e-12) and 0 < error < 1e-9


@pytest.mark.parametrize("factor", [1e8])
def test_errors_are_in_the_units_of_the_functions(factor):
    f, h = kinked(abs(x) ** -sympy.Rational(1, 4), x), kinked(sympy.tanh(x) + 2, x)
    large = kinked(sympy.Float(factor) * abs(x) ** -sympy.Rational(1, 4), x)
    for det in (0.0, 0.3):
        one, other = (nested(g, h, 1.0, (1 - det) ** 0.5, 1.0, det) for g in (f, large))
        assert other[0] == pytest.approx(factor * one[0], rel=1e-9)
        assert other[1] == pytest.approx(factor * one[1], rel=0.05)
        assert one[1] >= 1e-14 * one[0]


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-4, 0.3])
def test_smooth_functions_of_near_collinear_variables(gap):
    """E cos(u) tanh(v + …) by a product rule in independent coordinates; whichever variable is the wider one."""
    f, h = kinked(sympy.cos(x) + x, x), kinked(sympy.tanh(x) + 1, x)
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(90)
    weights /= weights.sum()
    for c11, c22 in ((2.0, 0.5), (0.5, 2.0)):
        c12 = (c11 * c22 * (1 - gap)) ** 0.5
        det = c11 * c22 * gap
        u = c11**0.5 * nodes[:, None] + 0 * nodes
        v = c12 / c11**0.5 * nodes[:, None] + (det / c11) ** 0.5 * nodes
        expected = float(weights @ ((numpy.cos(u) + u) * (numpy.tanh(v) + 1)) @ weights)
        value, error = nested(f, h, c11, c12, c22, det)
        assert value == pytest.approx(expected, abs=1e-7) and error < 1e-9


def distance(a, m, s):
    """E |m + s e − a|."""
    u = m - a
    if s == 0:
        return abs(u)
    return s * math.sqrt(2 / math.pi) * numpy.exp(-(u**2) / (2 * s * s)) + u * scipy.special.erf(u / (s * 2**0.5))


@pytest.mark.parametrize(("gap", "sign"), [(0.0, 1), (1e-6, -1), (1e-3, 1), (0.2, -1)])
def test_kinks_of_either_function(gap, sign):
    """E |u − b| |v − a| with the mean over v given u by its closed form; panels by hand."""
    nodes, weights = numpy.polynomial.legendre.leggauss(24)
    for (c11, c22), (b, a) in zip(
        ((3.0, 0.4), (0.4, 3.0), (1.0, 1.0)), ((0.0, 0.5), (-0.7, 0.0), (0.2, 0.2)), strict=True
    ):
        c12, det = sign * math.sqrt(c11 * c22 * (1 - gap)), c11 * c22 * gap
        slope, s = c12 / c11**0.5, math.sqrt(det / c11)
        centre = a / slope
        marks = {
            -12.0,
            12.0,
            b / c11**0.5,
            centre,
            *range(-11, 12),
            *(centre + q * s * r for q in (-1, 1) for r in (1, 4, 9)),
        }
        edges = numpy.array(sorted(m for m in marks if abs(m) <= 12))
        half = numpy.diff(edges)[:, None] / 2
        z = edges[:-1, None] + half * (1 + nodes)
        density = numpy.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        expected = (half * weights * density * abs(c11**0.5 * z - b) * distance(a, slope * z, s)).sum()
        value, error = nested(kinked(abs(x - b), x), kinked(abs(x - a), x), c11, c12, c22, det)
        assert value == pytest.approx(expected, abs=1e-9) and error < 1e-8
        turned, _ = nested(kinked(abs(x - a), x), kinked(abs(x - b), x), c22, c12, c11, det)
        assert turned == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("c11", "c22", "gap"), [(1e4, 1e4, 0.5), (30.0, 9.0, 0.9)])
def test_functions_that_are_steep_beside_the_deviation(c11, c22, gap):
    """E u tanh v = Cov(u, v) E sech² v (Stein), and E sech² by SciPy on the scale of sech."""
    c12, det = math.sqrt(c11 * c22 * (1 - gap)), c11 * c22 * gap
    slope, _ = scipy.integrate.quad(lambda v: math.exp(-v * v / (2 * c22)) / math.cosh(v) ** 2, -40, 40, limit=200)
    expected = c12 * slope / math.sqrt(2 * math.pi * c22)
    line, steep = kinked(x, x), kinked(sympy.tanh(x), x)
    assert nested(line, steep, c11, c12, c22, det)[0] == pytest.approx(expected, rel=1e-9)
    assert nested(steep, line, c22, c12, c11, det)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("power", "place"), [(0.25, 0.0), (0.49, 0.0), (0.49, 1.0), (0.4, -0.7)])
@pytest.mark.parametrize(("c11", "c22"), [(1.0, 1.0), (4.0, 0.25), (0.25, 4.0)])
def test_what_nodes_do_not_see_beside_a_pole_is_in_the_error(power, place, c11, c22):
    """E |u − t|^(−p) |v − r t|^(−p) at ρ = 1, v = r u: of |t|^(−.98) nodes see a tenth, by quadrature with a weight."""
    ratio = (c22 / c11) ** 0.5
    f, h = (kinked(abs(x - sympy.Float(t)) ** -sympy.Rational(str(power)), x) for t in (place, ratio * place))
    value, error = nested(f, h, c11, (c11 * c22) ** 0.5, c22, 0.0)

    def density(t):
        return sum(math.exp(-((place + s * t) ** 2) / (2 * c11)) for s in (1, -1)) / math.sqrt(2 * math.pi * c11)

    weighed, _ = scipy.integrate.quad(density, 0, 30, weight="alg", wvar=(-2 * power, 0), limit=200)
    expected = weighed * ratio**-power
    assert abs(value - expected) <= error + 1e-9 * expected
    assert error < (1e-6 if power == 0.25 else 20 * expected)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("c11", "c22"), [(4.0, 0.25), (0.25, 4.0)])
def test_a_pole_of_either_function_is_in_the_error(first, c11, c22):
    """E |u − 1|^(−.98) (cos v + 2) at ρ = 1, as above; all but a part of it is beside the pole."""
    pole, other = kinked(abs(x - 1) ** -sympy.Rational(49, 50), x), kinked(sympy.cos(x) + 2, x)
    ratio = (c22 / c11) ** 0.5

    def density(t):
        places = [1 + s * t for s in (1, -1)]
        return sum(math.exp(-(u**2) / (2 * c11)) * (math.cos(ratio * u) + 2) for u in places) / math.sqrt(
            2 * math.pi * c11
        )

    expected, _ = scipy.integrate.quad(density, 0, 30, weight="alg", wvar=(-0.98, 0), limit=200)
    both = ((pole, other), (c11, c22)) if first else ((other, pole), (c22, c11))
    value, error = nested(*both[0], both[1][0], (c11 * c22) ** 0.5, both[1][1], 0.0)
    assert 0.1 * expected < abs(value - expected) <= error < 20 * expected
