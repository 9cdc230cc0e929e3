"""The ways on which means over particles are moved within their errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy
import scipy.special
from numpy.typing import NDArray

from tplimits.arrays import Array

#: ways end where Student's distribution has what lies beyond so many deviations, and at this many errors in any case
_DEVIATIONS, _FARTHEST = 2.5, 4.0
#: relative rounding of means over particles
ROUNDING = 1e-13


@dataclass(frozen=True)
class Ways:
    """The straight ways from the mean over replicates towards single ones, in errors of that mean."""

    rows: Mapping[int, Array]  # (replicates, *axes) by position

    @property
    def replicates(self) -> int:
        """How many there are."""
        return len(next(iter(self.rows.values())))

    @property
    def end(self) -> float:
        """How far they go."""
        beyond = float(scipy.special.stdtrit(self.replicates - 1, scipy.special.ndtr(_DEVIATIONS)))
        return min(beyond, _FARTHEST)

    @cached_property
    def _lengths(self) -> Array:
        """How many deviations replicates lie from the mean, at least 1: no way goes further than others."""
        squares, count = numpy.zeros(self.replicates), 0.0
        for x in self.rows.values():
            deviation = x.std(axis=0, ddof=1)
            from_mean = ((x - x.mean(axis=0)) / numpy.where(deviation > 0, deviation, 1.0)).reshape(len(x), -1)
            squares += (from_mean**2).sum(axis=1)
            count += float((deviation > 0).sum())
        return numpy.sqrt(numpy.maximum(squares / max(count, 1.0), 1.0))

    def is_open(self, positions: Collection[int]) -> bool:
        """Whether some means differ between replicates by more than rounding."""
        rows = [self.rows[p] for p in positions]
        return any(bool((numpy.ptp(x, axis=0) > ROUNDING * abs(x).max(axis=0)).any()) for x in rows)

    def at(self, towards: NDArray[numpy.int64], z: Array, positions: Collection[int] | None = None) -> dict[int, Array]:
        """Means at z errors towards replicates of these numbers, (places, *axes)."""
        places = {}
        for position in self.rows if positions is None else positions:
            x = self.rows[position]
            middle = x.mean(axis=0)
            steps = (x - middle) / numpy.sqrt(len(x))
            moves = (numpy.where(abs(steps) > ROUNDING * abs(middle), steps, 0.0).T / self._lengths).T[towards]
            places[position] = middle + z.reshape(-1, *(1,) * (x.ndim - 1)) * moves
        return places
