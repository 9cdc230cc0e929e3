"""Reading arrays at index expressions."""

import numpy as np
from sympy import Integer

from tplimits.program.nodes.entries import Lookup, axis_symbol
from tplimits.program.nodes.grid import Grid

A, B, C = map(axis_symbol, "abc")
TABLE = np.array([[0, -1], [1, 2], [-1, 0]])


def test_axes_become_dimensions_after_the_draws():
    grid = Grid({"a": 2, "b": 3, "c": 4})
    array = np.random.default_rng(0).normal(size=(5, 4, 2, 7))
    read = grid.read(array, (C, A), tail=1)
    assert read.shape == (5, 2, 1, 4, 7) and grid.dimension("c") == 3
    np.testing.assert_array_equal(read[:, :, 0], array.transpose(0, 2, 1, 3))


def test_numbers_repeated_indices_and_no_indices():
    grid = Grid({"a": 2})
    array = np.random.default_rng(1).normal(size=(3, 2, 2))
    np.testing.assert_array_equal(grid.read(array, (A, Integer(1)), tail=0), array[:, :, 1])
    np.testing.assert_array_equal(
        grid.read(array, (A, A), tail=0), np.stack([array[:, i, i] for i in range(2)], axis=1)
    )
    assert grid.read(np.ones((3, 4)), (), tail=1).shape == (3, 1, 4)
    assert Grid({}).read(np.ones(3), (), tail=0).shape == (3,)


def test_tables():
    grid = Grid({"a": 3, "b": 2}, [TABLE])
    array = np.arange(1.0, 4.0)[None] * np.array([[1], [10]])
    read = grid.read(array, (Lookup(Integer(0), A, B),), tail=0)
    np.testing.assert_array_equal(read[1], [[10, 0], [20, 30], [0, 10]])
    fixed = grid.read(array, (Lookup(Integer(0), A, Integer(1)),), tail=0)
    np.testing.assert_array_equal(fixed[0], [[0], [3], [1]])
    absent = grid.read(array, (Lookup(Integer(0), Integer(0), Integer(1)),), tail=0)
    np.testing.assert_array_equal(absent, np.zeros((2, 1, 1)))


def test_a_table_beside_another_index():
    grid = Grid({"a": 3, "b": 2, "c": 2}, [TABLE])
    array = np.random.default_rng(2).normal(size=(1, 2, 3, 5))
    read = grid.read(array, (C, Lookup(Integer(0), A, B)), tail=1)
    expected = np.where(TABLE[None, :, :, None, None] >= 0, array[:, :, TABLE].transpose(0, 2, 3, 1, 4), 0)
    np.testing.assert_array_equal(read, expected)


def test_whole_axes_in_the_order_of_the_grid_are_a_view_and_no_others():
    grid, array = Grid({"a": 3, "b": 3}), np.random.default_rng(0).normal(size=(2, 3, 3, 4))
    view, turned, diagonal = (grid.read(array, at, tail=1) for at in ((A, B), (B, A), (A, A)))
    assert np.shares_memory(view, array) and not np.shares_memory(turned, array)
    np.testing.assert_array_equal(view, array)
    np.testing.assert_array_equal(turned, array.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(diagonal[:, :, 0], np.einsum("daan->dan", array))
    # an array that is longer than the axis is read as far as the axis goes
    part = Grid({"c": 2, "a": 2}).read(array, (A,), tail=2)
    np.testing.assert_array_equal(part[:, 0], array[:, :2])
