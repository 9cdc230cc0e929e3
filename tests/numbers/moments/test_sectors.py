"""Multiples of an angle as polynomials in its cosine."""

from __future__ import annotations

import numpy as np
import pytest

from tplimits.numbers.moments.sectors import _chebyshev_first, _chebyshev_second

ANGLES = np.linspace(0.1, 3.0, 7)


@pytest.mark.parametrize("n", range(7))
def test_multiples_of_an_angle_are_polynomials_in_its_cosine(n):
    first, second = (
        np.polynomial.polynomial.polyval(np.cos(ANGLES), f(n)) for f in (_chebyshev_first, _chebyshev_second)
    )
    np.testing.assert_allclose(first, np.cos(n * ANGLES), atol=1e-12)
    np.testing.assert_allclose(second, np.sin(n * ANGLES) / np.sin(ANGLES), atol=1e-12)
