"""Numbers, how they print, and where they say that the truth is."""

from __future__ import annotations

import pytest
import scipy.stats

from tplimits.numbers.number import Number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(0.5, 1e-16, "exact"), "0.5 (exact)"),
        (Number(0.123456789012, 3e-9, "quadrature"), "0.123456789 ± 3.0e-09 (quadrature)"),
        (Number(0.0, 0.0, "exact", 0.25), "0, variance 0.25 (exact)"),
        (Number(1.5, 0.01, "particles", 2.0, 0.1, 7), "1.5 ± 1.0e-02, variance 2 (particles)"),
    ],
)
def test_texts(number, text):
    assert str(number) == text and float(number) == number.value


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_intervals_of_particles_are_those_of_student(level):
    low, high = Number(2.0, 0.1, "particles", degrees=5).interval(level)
    assert (low + high) / 2 == pytest.approx(2.0)
    assert scipy.stats.t.cdf((high - 2) / 0.1, 5) - scipy.stats.t.cdf((low - 2) / 0.1, 5) == pytest.approx(level)
    assert Number(2.0, 0.1, "quadrature").interval(level) == (1.9, 2.1)
