"""Sector moments of a variable with itself, where the angle is known: E[uⁱ⁺ʲ; u > 0] by the gamma function."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tplimits.numbers.moments.quadrant import Angle
from tplimits.numbers.moments.writing import Writer, function

VARIANCES = np.array([0.0, 1e-30, 0.3, 1.0, 7.0, 1e20])
DEGREES = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 3)]


def moments(which: str, i: int, j: int, det: str = "0.0", scalar: bool = False):
    """A quadrant moment as a function of c11, c22 and the determinant, with det or a text known to be zero."""
    writer = Writer(scalar)
    angle = Angle(writer, "c11", "c11", "c22", det)
    name = writer.let(getattr(angle, which)(i, j))
    return function(writer.code(name), "moment", ("c11", "c22", "det"), scalar)


def radial(i: int, j: int) -> float:
    """∫ r^(i+j+1) e^(−r²/2) dr, by which sector moments are divided, and 1/(2π) of the polar coordinates."""
    return 2 ** ((i + j) / 2) * math.gamma((i + j) / 2 + 1) / (2 * math.pi)


@pytest.mark.parametrize(("i", "j"), DEGREES)
def test_a_variable_and_itself(i, j):
    # E[uⁿ; u > 0] = 2^(n/2) Γ((n + 1)/2)/(2 √π) c^(n/2)
    n = i + j
    wanted = 2 ** (n / 2) * math.gamma((n + 1) / 2) / (2 * math.sqrt(math.pi)) * VARIANCES ** (n / 2)
    if not n:
        wanted = np.where(VARIANCES > 0, wanted, 0.0)  # step(0) = 0
    found = radial(i, j) * moments("half", i, j)(VARIANCES, VARIANCES, 0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    np.testing.assert_array_equal(np.broadcast_to(moments("other", i, j)(VARIANCES, VARIANCES, 0.0), (6,)), np.zeros(6))


@pytest.mark.parametrize(("i", "j"), DEGREES)
@pytest.mark.parametrize("which", ["half", "other", "even", "odd"])
def test_the_known_angle_is_that_of_the_determinant(which, i, j):
    one, two = moments(which, i, j), moments(which, i, j, "det")
    zero = np.zeros_like(VARIANCES)
    found, wanted = (np.broadcast_to(f(VARIANCES, VARIANCES, zero), zero.shape) for f in (one, two))
    scale = np.where(VARIANCES > 0, VARIANCES ** ((i + j) / 2), 1.0)
    np.testing.assert_allclose(found / scale, wanted / scale, rtol=1e-14, atol=1e-15)
    scalar = moments(which, i, j, scalar=True)
    np.testing.assert_allclose([scalar(c, c, 0.0) for c in VARIANCES], found, rtol=1e-15)


@pytest.mark.parametrize(("i", "j"), DEGREES)
def test_what_is_no_number_stays_none(i, j):
    assert math.isnan(moments("half", i, j)(np.float64("nan"), np.float64("nan"), 0.0))


def test_other_pairs_are_no_variable_and_itself():
    writer = Writer(scalar=False)
    assert not Angle(writer, "c11", "c12", "c22", "0.0").is_one
    assert not Angle(writer, "c11", "c11", "c22", "det").is_one
