"""Rows of arrays."""

import numpy as np
import pytest

from tplimits.arrays import distinct_rows


@pytest.mark.parametrize("columns", [1, 2, 7, 80])
def test_different_rows_are_those_of_numpy(columns):
    """Of 80 columns of fifty numbers each the product of counts would pass 2^63."""
    rows = np.random.default_rng(0).normal(size=(50, columns))
    table = np.random.default_rng(1).permutation(np.concatenate([rows, rows, rows[:, ::-1]]))
    expected, place = np.unique(table, axis=0, return_inverse=True)
    found, mine = distinct_rows(table)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(mine, place.reshape(-1))


def test_rows_are_never_compared_as_wholes(monkeypatch):
    """NumPy takes ten times as long for these: a mean inside of a mean had spent nine tenths of its time on them."""
    unique = np.unique

    def of_numbers(array, **options):
        assert np.ndim(array) == 1 and "axis" not in options
        return unique(array, **options)

    monkeypatch.setattr(np, "unique", of_numbers)
    assert distinct_rows(np.array([[1.0, -0.0], [0.0, 2.0], [1.0, 0.0]]))[1].tolist() == [1, 0, 1]
