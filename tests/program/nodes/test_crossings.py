"""Zeros between the points of a grid: one, two, many, none; of one function and of rows of functions."""

from __future__ import annotations

import numpy
import pytest

from tplimits.errors import EvaluationError
from tplimits.program.nodes.crossings import between_waves, crossings, zeros

LINE = numpy.linspace(-4, 4, 65)
STEP = LINE[1] - LINE[0]


def product(places):
    return lambda x: numpy.prod([x - p for p in places], axis=0)


@pytest.mark.parametrize("apart", [0.9 * STEP, 0.3 * STEP, 1e-2 * STEP, 1e-4 * STEP])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_of_zeros_nearer_than_the_grid(seed, apart):
    """Two pairs and a single zero of a polynomial, anywhere."""
    rng = numpy.random.default_rng(seed)
    first, second, single = sorted(rng.uniform(-3.5, 3.5, 3), key=abs)
    places = sorted([first, first + apart, second, second + apart, single])
    assert zeros(product(places), LINE) == pytest.approx(places, abs=1e-9)
    # what turns before zero has none
    assert zeros(lambda x: product([first, first])(x) + apart**2, LINE) == []


def test_dips_of_kinks():
    assert zeros(lambda x: abs(x - 0.51) - 0.003, LINE) == pytest.approx([0.507, 0.513], abs=1e-12)
    assert zeros(lambda x: 0.003 - abs(x - 0.44), LINE) == pytest.approx([0.437, 0.443], abs=1e-12)


def test_zeros_on_the_grid_are_exact_and_stretches_have_ends():
    assert zeros(numpy.sin, numpy.linspace(-1, 1, 9)) == [0.0]
    assert zeros(numpy.square, LINE) == [0.0]
    assert zeros(lambda x: numpy.maximum(x, 0) - numpy.maximum(-1 - x, 0), LINE) == [-1.0, 0.0]
    assert zeros(numpy.ones_like, LINE) == []


def test_many_zeros_at_once():
    assert zeros(lambda x: numpy.sin(40 * x), numpy.linspace(-4, 4, 1001)) == pytest.approx(
        numpy.arange(-50, 51) * numpy.pi / 40, abs=1e-12
    )


def test_rows_have_their_own_zeros():
    """x² − c for rows of c: two far apart, two within a cell, one that only nearly touches, none."""
    offsets = numpy.array([[2.0, 1e-4], [0.0, -1.0]])
    found = numpy.sort(crossings(lambda x: (x - 0.03) ** 2 - offsets[..., None], LINE, 9.0, most=8), axis=-1)
    for offset, row in zip(offsets.ravel(), found.reshape(4, -1), strict=True):
        expected = [0.03 - offset**0.5, 0.03 + offset**0.5] if offset > 0 else []
        assert row[row < 9] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rate", [3, 200, 1000])
def test_all_zeros_of_a_fast_wave(rate):
    line = between_waves([lambda x: rate * x**2], LINE)
    found = zeros(lambda x: numpy.sin(rate * x**2) - 0.5, line)
    turns = numpy.arange(rate * 16 // 6 + 1)
    squares = (
        numpy.concatenate([(numpy.pi / 6 + 2 * numpy.pi * turns), (5 * numpy.pi / 6 + 2 * numpy.pi * turns)]) / rate
    )
    places = numpy.sqrt(squares[squares < 16])
    assert set(LINE) <= set(line) and numpy.allclose(found, numpy.sort([*places, *-places]), atol=1e-9)


def test_too_fast_waves_are_refused():
    with pytest.raises(EvaluationError, match="too often"):
        between_waves([lambda x: 1e7 * x], LINE)
