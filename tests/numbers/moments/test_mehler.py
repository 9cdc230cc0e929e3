"""Mehler's expansion from rows of coefficients: sums written out term by term, and what is left out as an error."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest

from tplimits.numbers.moments.hermite import HermiteRows
from tplimits.numbers.moments.mehler import mehler

RHO = numpy.array([0.0, 1.0, -1.0, 0.3, -0.999, 1e-3])


def rows(present, order, seed, tail=0.0, error=0.0):
    """Two rows with coefficients at some powers."""
    rng = numpy.random.default_rng(seed)
    coefficients = numpy.zeros((2, order))
    coefficients[:, list(present)] = rng.uniform(0.5, 1.0, (2, len(present))) * rng.choice([-1, 1], (2, len(present)))
    norm = numpy.sqrt((coefficients**2).sum(axis=1) + tail**2)
    return HermiteRows(coefficients, numpy.full(2, tail), numpy.full(2, error), norm)


def pairs(a, b):
    """All pairs of rows at all correlations."""
    left, right, at = zip(*itertools.product(range(2), range(2), range(len(RHO))), strict=True)
    value, error = mehler(a, b, numpy.array(left), numpy.array(right), RHO[list(at)])
    return zip(left, right, RHO[list(at)], value, error, strict=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5)),
        ((1, 3, 5), (0, 1, 2, 3, 4, 5)),  # every second power, from the first on
        ((2, 5), (2, 3, 5)),  # every third
        ((4,), (4, 5)),
    ],
)
def test_sums_over_the_powers_that_both_have(first, second):
    a, b = rows(first, 6, 0), rows(second, 6, 1)
    for i, j, rho, value, error in pairs(a, b):
        expected = math.fsum(a.coefficients[i, k] * b.coefficients[j, k] * rho**k for k in range(6))
        assert value == pytest.approx(expected, abs=1e-15)
        lowest = min(set(first) & set(second))
        assert error == pytest.approx(2e-15 * a.norm[i] * b.norm[j] * abs(rho) ** lowest, rel=1e-9, abs=0)


def test_functions_without_a_power_in_common_are_not_correlated():
    for _, _, _, value, error in pairs(rows((0, 2), 4, 0), rows((1, 3), 4, 1)):
        assert value == 0 == error


def test_what_lies_beyond_the_lower_order_is_an_error():
    """|ρ|^K √(tails), by Cauchy and Schwarz; a coefficient's error times the other's norm."""
    a, b = rows(range(6), 6, 0, tail=0.2, error=1e-3), rows(range(4), 4, 1, tail=0.1, error=1e-4)
    for i, j, rho, value, error in pairs(a, b):
        expected = math.fsum(a.coefficients[i, k] * b.coefficients[j, k] * rho**k for k in range(4))
        assert value == pytest.approx(expected, abs=1e-14)
        beyond = math.sqrt(0.2**2 + a.coefficients[i, 4] ** 2 + a.coefficients[i, 5] ** 2) * 0.1
        doubt = 1e-3 * b.norm[j] + a.norm[i] * 1e-4
        assert error == pytest.approx(abs(rho) ** 4 * beyond + doubt, rel=1e-9)


def test_powers_below_rounding_are_left_out():
    """Sixty coefficients of size 1: at a correlation of a half all of them count, at 10⁻³ six do."""
    a = HermiteRows(numpy.ones((1, 70)), numpy.zeros(1), numpy.zeros(1), numpy.full(1, math.sqrt(70)))
    for rho in (0.5, -0.5, 0.9, 1e-3, -1e-3, 1e-30, 1 - 1e-9, 1 + 1e-12):
        value, _ = mehler(a, a, numpy.zeros(1, int), numpy.zeros(1, int), numpy.array([rho]))
        assert value == pytest.approx(math.fsum(rho**k for k in range(70)), rel=1e-15)
