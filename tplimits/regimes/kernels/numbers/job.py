"""The work behind a Gram matrix as tiles that any process can compute: the same numbers whoever does it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.regimes.kernels.numbers.drawn import drawn
from tplimits.regimes.kernels.numbers.evaluation import Pieces, pieces_of
from tplimits.regimes.kernels.numbers.request import KERNELS, GramRequest, refuse_infinite, shape_of, squares
from tplimits.regimes.kernels.numbers.symmetry import symmetric

#: seconds of work that a tile is worth, the most tiles, and inputs a side of the largest
_TILE, _MOST, _LARGEST = 0.5, 20_000, 4096


@dataclass(frozen=True)
class Found:
    """The arrays of one tile in the order of `Job.names`, and a bound of their errors."""

    values: list[Array]
    error: float


@dataclass(frozen=True, eq=False)
class Job:
    """A request in tiles: what is sent to a worker, once.  Drawn kernels share their draws, and are one tile."""

    asked: GramRequest
    sampling: Mapping[str, Any]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a tile holds: the kernels, and where logits are drawn their standard errors."""
        if self.asked.is_drawn:
            return (*KERNELS, *(f"{kernel}_error" for kernel in KERNELS))
        return ("nngp",) if self.asked.derivation.no_ntk else KERNELS

    @cached_property
    def places(self) -> list[tuple[slice, slice]]:
        """Rows and columns of each tile; of a symmetric request those on and above the diagonal."""
        one, other = self.asked.one.many, self.asked.other.many
        if self.asked.is_drawn:
            return [(slice(0, one), slice(0, other))]
        pairs = one * other / (2 if self.asked.symmetric else 1)
        side = math.isqrt(int(max(_TILE / self._pieces.seconds, pairs / _MOST, 1)))
        step = max(1, min(side, _LARGEST) // self.step) * self.step
        return list(squares(one, other, self.asked.symmetric, step))

    @cached_property
    def step(self) -> int:
        """Inputs a side of the tiles that are done together in memory."""
        return 1 if self.asked.is_drawn else self._pieces.step

    def tile(self, number: int) -> Found:
        """One tile; a diagonal one of a symmetric request is exactly symmetric.  EvaluationError where not finite."""
        rows, columns = self.places[number]
        on_diagonal = self.asked.symmetric and rows == columns
        found = self._drawn() if self.asked.is_drawn else self._planned(rows, columns, on_diagonal)
        if on_diagonal:
            found = Found([symmetric(v) for v in found.values], found.error)
        return found

    def begin(self) -> None:
        """Do a small part of the first tile: what is compiled for it is on disk afterwards."""
        if not self.asked.is_drawn:
            rows, columns = self.places[0]
            self._pieces.of(slice(0, min(self.step, rows.stop)), slice(0, min(self.step, columns.stop)))

    def _planned(self, rows: slice, columns: slice, on_diagonal: bool) -> Found:
        """The small tiles of one, those that are done together in memory."""
        many, shape = (rows.stop - rows.start, columns.stop - columns.start), shape_of(self.asked)
        values = [numpy.empty((*many, *shape[2:]), self.asked.dtype) for _ in self.names]
        error = 0.0
        for i, j in squares(*many, on_diagonal, self.step):
            here = _moved(i, rows.start), _moved(j, columns.start)
            found, bound = self._pieces.of(*here)
            refuse_infinite(self.asked, self.names, found, here[0].start, here[1].start)
            for value, part in zip(values, found, strict=True):
                value[i, j] = part
            error = max(error, bound)
        return Found(values, error)

    def _drawn(self) -> Found:
        pair = drawn(self.asked, [(1, 2)], **self.sampling)[1, 2]
        return Found([getattr(pair, name).astype(self.asked.dtype) for name in self.names], 0.0)

    @cached_property
    def _pieces(self) -> Pieces:
        kernels = tuple(name for name in self.names if name in KERNELS)
        return pieces_of(self.asked, kernels, settled=True)

    def __getstate__(self) -> dict[str, Any]:
        """Without the plan, which holds functions and is made again; with the tiles of whoever sends it."""
        return {"asked": self.asked, "sampling": self.sampling, "places": self.places, "step": self.step}


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)
