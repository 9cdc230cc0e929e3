"""Angles in arithmetic against mpmath and the math library."""

import math

import mpmath
import numpy as np
import pytest

from tplimits.numbers.moments.angles import arc, arc_single, atan2

COSINES = [float(u) for u in (*np.linspace(0, 1, 301), *np.geomspace(1e-20, 0.5, 60))]


@pytest.mark.parametrize(("function", "error"), [(arc, 1e-15), (arc_single, 1.5e-9)])
def test_arcs_are_those_of_cosines(function, error):
    """arccos(1 − u) as 2 arcsin √(u/2), which keeps small angles."""
    for u in COSINES:
        exact = 2 * mpmath.asin(mpmath.sqrt(mpmath.mpf(u) / 2))
        assert abs(function(u) - exact) <= error * exact, u


def test_angles_are_those_of_the_library_all_around():
    for radius in (1e-200, 1.0, 1e200):
        for k in range(720):
            angle = math.pi * (k + 0.5) / 360 - math.pi
            y, x = radius * math.sin(angle), radius * math.cos(angle)
            assert abs(atan2(y, x) - math.atan2(y, x)) <= 3 * math.ulp(abs(angle)), angle
    assert atan2(0.0, 0.0) == 0 and atan2(1.0, 0.0) == math.pi / 2 and atan2(-1.0, 0.0) == -math.pi / 2
