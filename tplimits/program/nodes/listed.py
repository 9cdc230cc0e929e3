"""Arrays from what users list: numbers that stand one by one are counted before they are written out."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

#: more than so many numbers are an array, or a mistake: one by one they take 30 bytes each
_ENTRIES = 1 << 24
#: NumPy has no more dimensions; a list may hold itself
_DEEPEST = 64


class TooManyNumbers(ValueError):
    """Numbers one by one, and more of them than anyone writes."""


def array_of(value: Any, dtype: Any = None) -> NDArray[Any]:
    """`numpy.asarray`, which would write out range(10**9): TooManyNumbers for more than 2²⁴ of them one by one."""
    if _entries(value) > _ENTRIES:
        raise TooManyNumbers(f"more than {_ENTRIES} numbers one by one: give an array of NumPy")
    return numpy.asarray(value, dtype)


def _entries(value: Any, depth: int = 0) -> int:
    """How many numbers lists of lists hold, none of them written out; counted until they are too many."""
    if depth > _DEEPEST or not isinstance(value, (list, tuple, range)):  # or an array, and what is one in memory
        return 1
    many = len(value)
    if many <= _ENTRIES and not isinstance(value, range):
        for inner in value:
            if isinstance(inner, (list, tuple, range)):
                many += _entries(inner, depth + 1)
            if many > _ENTRIES:
                break
    return many
