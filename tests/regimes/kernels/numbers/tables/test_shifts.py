"""Sums over taps by slices and by gathering, beside the sum written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tplimits.regimes.kernels.numbers.tables.labelled import Labelled
from tplimits.regimes.kernels.numbers.tables.shifts import Read, moved, summed_entries


def window(height, width, taps, stride=(1, 1), pad=(0, 0), many=None):
    """Places (taps, rows, columns) of entries that read a grid at multiples of a stride moved by taps, −1 outside."""
    rows, columns = many or (height, width)
    y, x = np.arange(rows)[:, None] * stride[0] - pad[0], np.arange(columns) * stride[1] - pad[1]
    found = [np.where((y + a >= 0) & (y + a < height) & (x + b >= 0) & (x + b < width), (y + a) * width + x + b, -1)
             for a, b in taps]  # fmt: skip
    return np.array(found).reshape(len(taps), -1)


SQUARE = tuple(itertools.product((-1, 0, 1), repeat=2))
HOLED = window(4, 4, SQUARE)
HOLED[2, 9] = -1
RNG = np.random.default_rng(3)
#: places, and how many entries they are read from
PLACES = {
    "a line": (window(1, 7, [(0, -2), (0, 0), (0, 1)]), 7),
    "a square": (window(4, 4, SQUARE), 16),
    "a high grid, taps apart": (window(4, 2, [(-2, 1), (0, -1), (3, 0), (1, 1)]), 8),
    "one is left out": (HOLED, 16),
    "strides": (window(4, 6, SQUARE[:5], (2, 3), (0, 1), (2, 2)), 24),
    "a pool": (window(4, 4, [(a, b) for a in (0, 1) for b in (0, 1)], (2, 2), many=(2, 2)), 16),
    "a permutation": (np.array([RNG.permutation(6), [3, -1, 0, 0, 5, 2]]), 6),
    "nothing": (np.full((2, 4), -1), 4),
    "two apart": (window(1, 9, [(0, -2), (0, 0), (0, 2)]), 9),
    "one place": (window(1, 1, [(0, -1), (0, 0)]), 1),
    "backwards": (np.arange(6)[None, ::-1].copy(), 6),
    "from the other side": ((np.arange(5) + np.array([[0], [1], [4]])) % 5, 5),
    "finer": (np.arange(6)[None] // 2, 3),
}


def summed(array, reads):
    """Σ_t x[…, T(t, i), …] for reads of the last dimensions of x, one number at a time."""
    found = np.zeros((*array.shape[: array.ndim - len(reads)], *(r.flat.shape[1] for r in reads)))
    for t in range(len(reads[0].flat)):
        for at in itertools.product(*(range(r.flat.shape[1]) for r in reads)):
            places = tuple(r.flat[t, i] for r, i in zip(reads, at, strict=True))
            if min(places) >= 0:
                found[(..., *at)] += array[(..., *places)]
    return found


@pytest.mark.parametrize("name", PLACES)
def test_sums_over_taps(name):
    """Of one index at the end or in the middle of a table, and of two."""
    places, size = PLACES[name]
    one, other = (Read(label, places, (f"to {label}",)) for label in "ij")
    x = RNG.standard_normal((2, size))
    for batch, array, labels, reads in (
        (2, x, ("b", "i"), (one,)),
        (2, np.moveaxis(x, 1, 0), ("i", "b"), (one,)),
        (6, RNG.standard_normal((3, size, 2)), ("a", "i", "b"), (one,)),
        (2, RNG.standard_normal((2, size, size)), ("b", "i", "j"), (one, other)),
    ):
        found = summed_entries([Labelled(array, labels)], reads)
        rest = [x for x in labels if x in "ab"]
        wanted = summed(Labelled(array, labels).at([*rest, *(r.label for r in reads)]), reads)
        assert wanted.reshape(batch, -1).shape[1] == places.shape[1] ** len(reads)
        np.testing.assert_allclose(found.at([*rest, *(r.labels[0] for r in reads)]), wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["a line", "a square", "two apart", "a high grid, taps apart"])
def test_taps_of_a_grid_are_moves(name):
    """Every place moves by as many rows and columns, in the order of the columns."""
    places, size = PLACES[name]
    order, down, across, width = moved(places, size)
    assert (np.diff(across) >= 0).all() and sorted(order) == list(range(len(places)))
    taps = list(zip(down.tolist(), across.tolist(), strict=True))
    np.testing.assert_array_equal(window(size // width, width, taps), places[order])


def test_other_taps_move_nothing():
    moving = [name for name, (places, size) in PLACES.items() if moved(places, size) is not None]
    assert moving == ["a line", "a square", "a high grid, taps apart", "two apart"]
