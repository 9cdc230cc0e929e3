"""Cells of places on grids with borders, counted one by one."""

import numpy as np
import pytest

from tplimits.regimes.kernels.numbers.passes.cells import Axis, Kept, Window, window

GRID, LINE = Axis(6, (2, 3), (1, 2)), Axis(5, (1, 5))


def taps(moves, shape):
    """The places that taps read, −1 outside of the grid."""
    inside = {(y, x): y * shape[1] + x for y, x in np.ndindex(shape)}
    return np.array([[inside.get((y + a, x + b), -1) for y, x in np.ndindex(shape)] for a, b in moves])


def test_cells_of_a_grid_lie_row_by_row_inside_of_a_border():
    board = np.arange(4 * 7).reshape(4, 7)
    assert (GRID.is_grid, GRID.width, GRID.extent) == (True, 7, board.size)
    assert GRID.cells(np.array([0, 2, 3, 5, -1])).tolist() == [*board[1:3, 2:5][[0, 0, 1, 1], [0, 2, 0, 2]], 0]
    assert Axis(6, (2, 3), (0, 1)).extent == 2 * 5 and Axis(6, (2, 3), (1, 0)).extent == 4 * 3


def test_a_line_has_one_cell_behind_it():
    assert (LINE.is_grid, LINE.extent) == (False, 6)
    assert LINE.cells(np.array([0, 4, -1])).tolist() == [0, 4, 5]


@pytest.mark.parametrize("moves", [[(0, 0), (0, 1), (1, 0), (1, 1)], [(0, -1), (0, 0), (0, 1)]])
def test_taps_move_all_cells_alike(moves):
    places = taps(moves, GRID.shape)
    far = GRID.distances(places)
    assert far.tolist() == [7 * a + b for a, b in moves]
    cells = GRID.cells(np.arange(6))
    for row, distance in zip(places, far, strict=True):
        assert (GRID.cells(row)[row >= 0] == (cells + distance)[row >= 0]).all()
        assert (cells + distance).min() >= 0 and (cells + distance).max() < GRID.extent


def test_taps_that_reach_over_the_border_or_move_no_grid_have_no_distances():
    assert GRID.distances(taps([(0, 0), (0, 2)], (2, 3))).tolist() == [0, 2]
    assert Axis(6, (2, 3), (1, 1)).distances(taps([(0, 0), (0, 2)], (2, 3))) is None
    assert Axis(8, (4, 2), (1, 1)).distances(taps([(0, 0), (2, 0)], (4, 2))) is None
    assert LINE.distances(taps([(0, 0), (0, 1)], (1, 5))) is None


def test_windows_are_all_pairs_of_rows_and_columns():
    assert window([0, 0, 1, 1], [-1, 2, 2, -1]) == Window((0, 1), (-1, 2))
    assert window([0, 0, 1], [0, 1, 0]) is None and window([0, 0], [1, 1]) is None


def test_arrays_of_several_axes_have_strides_of_cells():
    kept = Kept(3, (GRID, LINE, LINE))
    assert kept.extents == (28, 6, 6) and kept.strides == (36, 6, 1)
