"""Memory that is used again: only what nothing else can reach."""

from __future__ import annotations

import numpy as np
import pytest

from tplimits.regimes.kernels.numbers.passes import buffers
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

#: doubles of the smallest array that is kept
LEAST = 2**14


@pytest.fixture(autouse=True)
def none_waiting():
    buffers.forget()
    yield
    buffers.forget()


def let_go(values: list[Labelled]) -> bool:
    """Whether the memory of a value that the list alone holds is the next array's of its size, and only its."""
    value = values.pop()
    buffers.let_go(value)
    place, size = value.array.__array_interface__["data"][0], value.array.size
    found = [buffers.empty((2, size // 2), np.int64) for _ in range(2)]
    assert all(f.shape == (2, size // 2) and f.dtype == np.int64 and f.flags.writeable for f in found)
    return [f.__array_interface__["data"][0] == place for f in found] == [True, False]


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (lambda: np.empty(LEAST), True),
        (lambda: np.empty(LEAST).reshape(2, -1), True),
        (lambda: np.empty((4, LEAST // 2)), True),
        (lambda: np.empty(LEAST - 2), False),
        (lambda: np.empty(2 * LEAST)[:LEAST], False),
        (lambda: np.empty(2 * LEAST)[::2], False),
        (lambda: np.empty((LEAST, 2)).T, False),
    ],
)
def test_whole_arrays_are_used_again(made, kept):
    assert let_go([Labelled(made(), ())]) == kept


def test_what_somebody_holds_is_left_alone():
    array = np.empty(LEAST)
    assert not let_go([Labelled(array, ())])
    base = np.empty(LEAST)
    assert not let_go([Labelled(base.reshape(2, -1), ())])
    value = Labelled(np.empty(LEAST), ())
    assert not let_go([value])
    held = Labelled(np.empty(LEAST).reshape(2, -1), ())
    view = held.array
    assert not let_go([held]) and view.shape == (2, LEAST // 2)


def test_parts_of_a_law_are_no_array():
    buffers.let_go(Labelled([np.empty(LEAST)], ()))
    assert not getattr(buffers._FREE, "arrays", {})
