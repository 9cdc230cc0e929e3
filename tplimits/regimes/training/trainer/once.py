"""Inputs that are listed several times, each taken once: data drawn with replacement hold many of them.

Training goes through all of them, as it is told to; what only looks at a network need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Once:
    """`rows` are the first of inputs that are alike, `which` says for every input which of them it is."""

    rows: NDArray[numpy.int64]
    which: NDArray[numpy.int64]

    def all_of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of `rows`, on their last axis, as those of all inputs."""
        return values if len(self.rows) == len(self.which) else numpy.take(values, self.which, axis=-1)

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all inputs, on their last axis: their sums over those that are alike, on the first of them."""
        found = numpy.zeros_like(values)
        # an indexed sum would add one of those that are alike
        numpy.add.at(numpy.moveaxis(found, -1, 0), self.rows[self.which], numpy.moveaxis(values, -1, 0))
        return found


def once(arrays: Sequence[NDArray[Any]]) -> Once:
    """What is alike in all of some arrays, which have inputs first.

    >>> found = once([numpy.array([[0, 1], [1, 1], [0, 1]])])
    >>> found.rows.tolist(), found.which.tolist(), found.all_of(numpy.array([5, 6])).tolist()
    ([0, 1], [0, 1, 0], [5, 6, 5])
    """
    known: dict[bytes, int] = {}
    rows, which = list[int](), list[int]()
    for number in range(len(arrays[0])):
        place = known.setdefault(b"".join(numpy.ascontiguousarray(a[number]).tobytes() for a in arrays), len(rows))
        if place == len(rows):
            rows.append(number)
        which.append(place)
    return Once(numpy.array(rows), numpy.array(which))
