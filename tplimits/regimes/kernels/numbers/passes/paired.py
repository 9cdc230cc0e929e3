"""Compiled passes over a list of pairs of inputs, of a symmetric request those above the diagonal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.regimes.kernels.numbers.passes.banded import Banded
from tplimits.regimes.kernels.numbers.passes.bands import Bands
from tplimits.regimes.kernels.numbers.passes.blocks import plain
from tplimits.regimes.kernels.numbers.passes.lanes import COLUMNS
from tplimits.regimes.kernels.numbers.passes.listed import PAIRS, Listed
from tplimits.regimes.kernels.numbers.passes.nested import Nested, nested
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.passes import Passes


@dataclass(eq=False)
class Paired(Nested):
    """A compiled function whose lanes are pairs of inputs from a list, or inputs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        #: tables of one of two opposite offsets; whether they are enough, None before that was looked at
        self.halves = [t.ctypes.data for t in self.lanes.half] if isinstance(self.lanes, Banded) else []
        self.is_half: bool | None = None if self.halves else False

    def _computed(
        self,
        known: dict[int, Any],
        many: tuple[int, ...],
        triangle: bool,
        rows: Sequence[int],
        addresses: NDArray[numpy.int64] | None = None,
    ) -> tuple[Sequence[Any], NDArray[numpy.bool_]]:
        if len(many) == 1:
            return super()._computed(known, many, triangle, rows, addresses)
        i, j = numpy.triu_indices(many[0], 1, many[1]) if triangle else numpy.indices(many).reshape(2, -1)
        if rows:
            kept = numpy.isin(i, rows)
            i, j = i[kept], j[kept]
        flagged = numpy.zeros(many, bool)
        if not len(i):
            return [self._empty_result(w, many) for w in self.passes.schedule.wanted[: self.passes.kernels]], flagged
        self.pairs = [numpy.append(k, numpy.repeat(k[-1:], -len(k) % self.lanes.count)) for k in (i, j)]
        some = {n: self._of_list(v, n, i, j) for n, v in known.items()}
        found, met = super()._computed(some, (1, len(i)), False, (), addresses)
        wanted = self.passes.schedule.wanted[: self.passes.kernels]
        found = [known.get(w, f) if isinstance(w, int) else w for w, f in zip(wanted, found, strict=True)]
        flagged[i, j] = met[0]
        return [self._spread(f, i, j, many) for f in found], flagged

    def _of_list(self, value: Any, n: int, i: NDArray[Any], j: NDArray[Any]) -> Any:
        """A given quantity of pairs at those of the list."""
        inputs = self.passes.inputs
        if not self.lanes.is_pairs(n):
            return value
        labels = self.passes.labels[n]
        front = [x for x in labels if x not in inputs]
        named = Labelled(value.array, labels if len(labels) == value.array.ndim else value.labels)
        picked = named.at([*front, *inputs])[..., i, j][..., None, :]
        return Labelled(picked, (*front, *inputs))

    def settle(self, given: Callable[[Any], Any], many: int) -> None:
        """Whether tables of an input with itself are symmetric: one half of them gives the same at some data."""
        found = []
        for self.is_half in (False, True):
            rows, _ = self.run(given, (many,))
            found.append([plain(r).array for r in rows])
        self.is_half = all(numpy.allclose(a, b, rtol=1e-9, atol=0, equal_nan=True) for a, b in zip(*found, strict=True))

    def _spread(self, value: Any, i: NDArray[Any], j: NDArray[Any], many: Sequence[int]) -> Any:
        """Entries of a list of pairs in their places."""
        if not isinstance(value, Labelled) or value.labels[:2] != self.passes.inputs:
            return value
        array = numpy.zeros((*many, *value.array.shape[2:]), value.array.dtype)
        array[i, j] = value.array[0]
        return Labelled(array, value.labels)

    def _empty_result(self, wanted: Any, many: Sequence[int]) -> Any:
        if isinstance(wanted, Labelled):
            return wanted
        sizes = self.passes.sizes_of(wanted)
        return Labelled(numpy.zeros((*many, *sizes), self.dtype), (*self.passes.inputs, *self.front[wanted]))

    def _called(self, table: NDArray[numpy.int64], numbers: NDArray[numpy.int64], some: Sequence[int]) -> None:
        first = len(self.lanes.outer)
        if self.of_list:
            table[first : first + PAIRS] = [k.ctypes.data for k in self.pairs]
        if self.is_half:
            table[first + PAIRS : first + PAIRS + len(self.halves)] = self.halves
        self._shared(table, numbers, -(-int(numbers[COLUMNS]) // self.lanes.count), False)

    @property
    def of_list(self) -> bool:
        """Whether lanes are pairs."""
        return len(self.passes.inputs) == 2


def paired(passes: Passes, single: bool, lanes: int) -> Nested:
    """Passes as a compiled function, with chains where there are tables over pairs of places."""
    if not any(Bands.is_between(passes.labels[n]) for n in passes.kept):
        return nested(passes, single, 16 if single and lanes == 16 else 8)
    return Paired(passes, Banded(passes, lanes, single))


def listed(passes: Passes, single: bool, lanes: int) -> Nested:
    """Passes as a compiled function over a list of pairs."""
    return Paired(passes, Listed(passes, lanes, single))
