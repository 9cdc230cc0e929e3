"""Influence functions of many averages in one array: sums over averages are products of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import STACKED, Field

#: rows are made this many times more than there are
_AHEAD = 1.5


class Influences:
    """The parts of ψ_j that are functions of the variables `dims` on one axis; `rows` is where each average has its."""

    def __init__(self, dims: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.dims, self.shape = dims, shape
        self.rows: dict[int, int] = {}
        self._kept = numpy.zeros((0, int(numpy.prod(shape))))

    @property
    def table(self) -> Array:
        """One row an average, one column a node."""
        return self._kept[: len(self.rows)]

    def of(self, rows: Sequence[int]) -> Field:
        """Some rows, stacked."""
        return Field((STACKED, *self.dims), self.table[rows].reshape(len(rows), *self.shape))

    def follow(self, j: int, slopes: Mapping[int, float], own: Array | None) -> None:
        """ψ_j = own part + Σ D_ji ψ_i, where there is any of it."""
        before = {self.rows[i]: d for i, d in slopes.items() if i in self.rows}
        if own is None and not before:
            return
        found = numpy.zeros(self._kept.shape[1]) if own is None else own.ravel()
        if before:
            found = found + numpy.array(list(before.values())) @ self._kept[list(before)]
        count = len(self.rows)
        if count == len(self._kept):
            larger = numpy.empty((int(_AHEAD * count) + 1, self._kept.shape[1]))
            larger[:count] = self._kept
            self._kept = larger
        self._kept[count] = found
        self.rows[j] = count
