"""Determinants along a recursion against 80 digits; Grams of nearly collinear inputs against exact fractions."""

import itertools
from fractions import Fraction

import mpmath
import numba
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tplimits.numbers.moments.determinants import (
    Kernel,
    gram_determinant,
    piecewise_linear,
    residual_determinant,
    shifted,
    summed,
)
from tplimits.numbers.moments.writing import Writer, function

DIGITS = 80
ENTRIES = ("c11", "c12", "c22", "det"), ("l11", "l12", "l22", "ldet")


def rule(written, scalar, *given):
    """A rule as a function of (c11, c12, c22, det) and, for sums, of the second kernel's."""
    writer, entries = Writer(scalar), ENTRIES if written is summed else ENTRIES[:1]
    text = written(writer, *(Kernel(*e) for e in entries), *given)
    return function(writer.code(text), written.__name__, tuple(itertools.chain(*entries)), scalar)


def kernels():
    gaps = [1.0, 0.5, 0.1, *(mpmath.mpf(10) ** -k for k in range(2, 25))]
    for gap, sign, c11, ratio in itertools.product(gaps, (1, -1), (1e-8, 1.0, 1e4), (1e-8, 1.0, 3.0, 1e8)):
        with mpmath.workdps(DIGITS):
            first, second = mpmath.mpf(c11), mpmath.mpf(c11 * ratio)
            cross = sign * (1 - gap) * mpmath.sqrt(first * second)
            det = first * second * gap * (2 - gap)
        yield first, cross, second, det


def largest_error(function, exact):
    worst = 0.0
    for kernel in kernels():
        with mpmath.workdps(DIGITS):
            expected = exact(*kernel)
            found = mpmath.mpf(float(function(*map(float, kernel))))
            worst = max(worst, float(abs(found - expected) / expected))
    return worst


@pytest.mark.parametrize("scalar", [True, False])
@pytest.mark.parametrize("b", [0.5, 0.0, 0.1])
def test_shifted(b, scalar):
    assert largest_error(rule(shifted, scalar, b), lambda p, q, s, d: d + b * (p + s - 2 * q)) < 2e-15


@pytest.mark.parametrize("slopes", [(1.0, 0.0), (1.0, -0.25), (1.0, 1.0), (1.0, -1.0), (1.0, 0.5)])
@pytest.mark.parametrize("compiled", [True, False])
def test_piecewise_linear(slopes, compiled):
    up, down = slopes

    def exact(p, q, s, d):
        angle = mpmath.atan2(mpmath.sqrt(d), q)
        m = (mpmath.mpf(up) ** 2 + down**2) / 2
        kappa = (
            mpmath.cos(angle) + (up + down) ** 2 / (2 * m) * (mpmath.sin(angle) - angle * mpmath.cos(angle)) / mpmath.pi
        )
        return m * m * p * s * (1 - kappa**2)

    found = rule(piecewise_linear, compiled, *slopes)
    assert largest_error(numba.njit(error_model="numpy")(found) if compiled else found, exact) < 3e-15


@pytest.mark.parametrize("scalar", [True, False])
def test_sums(scalar):
    compiled = rule(summed, scalar)
    for k, other in itertools.product(
        itertools.islice(kernels(), 0, None, 7), itertools.islice(kernels(), 1, None, 11)
    ):
        with mpmath.workdps(DIGITS):
            # entries as doubles, cross entries from the determinants
            first, second = (
                (p, mpmath.sign(q) * mpmath.sqrt(p * s - d), s, d)
                for p, q, s, d in ([mpmath.mpf(float(v)) for v in kernel] for kernel in (k, other))
            )
            if first[0] * first[2] < first[3] or second[0] * second[2] < second[3]:
                continue
            a, b, c = (first[i] + second[i] for i in range(3))
            expected = a * c - b * b
            found = mpmath.mpf(float(compiled(*map(float, (*first, *second)))))
            assert abs(found - expected) <= 1e-13 * expected


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(-1, 1))
def test_the_determinant_of_doubles_is_exact(c11, c22, rho):
    c12 = rho * (c11 * c22) ** 0.5
    exact = Fraction(c11) * Fraction(c22) - Fraction(c12) ** 2
    assert float(gram_determinant(c11, c12, c22)) == pytest.approx(max(float(exact), 0.0), rel=1e-14, abs=1e-34)


def test_the_determinant_of_doubles_is_exact_at_every_scale():
    """Of a kernel within rounding of singular, whose determinant is what products of doubles lose."""
    rng = numpy.random.default_rng(2)
    for scale in (1e-90, 1e-9, 1.0, 1e9, 1e30, 1e90):
        for _ in range(20):
            c12 = scale * rng.uniform(1, 2)
            ratio = rng.uniform(0.1, 10)
            c11, c22 = c12 * ratio, float(numpy.nextafter(c12 / ratio, numpy.inf))
            exact = Fraction(c11) * Fraction(c22) - Fraction(c12) ** 2
            expected = max(float(exact), 0.0)
            assert float(gram_determinant(c11, c12, c22)) == pytest.approx(expected, rel=1e-12, abs=1e-31 * scale**2)


@pytest.mark.parametrize("distance", [2.0**-k for k in (2, 12, 22, 32, 42)])
def test_grams_of_nearly_collinear_inputs(distance):
    rng = numpy.random.default_rng(3)
    first = rng.integers(-8, 9, size=(5, 6)).astype(float)
    second = -3 * first + distance * rng.integers(-8, 9, size=(5, 6))
    det = residual_determinant(first, second)
    for i in range(5):
        x, y = ([Fraction(v) for v in row[i]] for row in (first, second))
        xx, xy, yy = (sum(a * b for a, b in zip(*pair, strict=True)) for pair in ((x, x), (x, y), (y, y)))
        exact = float(xx * yy - xy * xy)
        share = (exact / (float(xx) * float(yy))) ** 0.5
        assert det[i] == pytest.approx(exact, rel=1e-9 + 1e-14 / share)


def test_equal_and_opposite_inputs_are_collinear():
    x = numpy.random.default_rng(0).normal(size=(4, 5))
    square = numpy.sum(x * x, axis=1) ** 2
    assert all((residual_determinant(x, y) <= 1e-31 * square).all() for y in (x, -x))


def test_where_parts_of_products_overflow_the_products_are_taken():
    assert float(gram_determinant(1e301, 5e149, 0.1)) == pytest.approx(7.5e299)
    assert float(gram_determinant(1e301, 2e150, 0.1)) == 0.0
