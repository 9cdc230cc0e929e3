"""Reading arrays at index expressions: finite axes as the dimensions of a grid.

A body is evaluated on a fixed grid of dimensions (draw, finite axes, summed axes, α, β1, ..., βr), so
broadcasting by name is broadcasting by position.

Of sums Σ_t δ[x[t], v] g[t] over entries that data put at v, every g[t] is added at one place, and no product is formed:
they are the gradients of values that are read at indices from data, and what was read there goes back there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.program.nodes.entries import AxisSum, DataIndex, Kron, Lookup, free_axes


class Grid:
    """The finite axes of a computation, in order, with their sizes.

    `tables` are the integer look-ups, `data` discrete inputs by the position of their instruction.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        tables: Sequence[NDArray[numpy.int64]] = (),
        data: Mapping[int, NDArray[numpy.int64]] | None = None,
    ) -> None:
        self.sizes, self.tables, self.data = dict(sizes), tables, data or {}
        self._order = list(self.sizes)

    def dimension(self, axis: str) -> int:
        """The dimension of an axis in arrays on the grid; dimension 0 counts draws."""
        return 1 + self._order.index(axis)

    def positions(self, index: Expr) -> int | NDArray[numpy.int64]:
        """An index expression as an integer, or as integers that broadcast over the axes of the grid."""
        if isinstance(index, sympy.Integer):
            return int(index)
        if isinstance(index, (Lookup, DataIndex)):
            read = self.tables[index.table] if isinstance(index, Lookup) else self.data[index.source]
            return read[tuple(map(self.positions, index.indices))]
        behind = len(self._order) - self.dimension(index.name)
        return numpy.arange(self.sizes[index.name]).reshape((-1,) + (1,) * behind)

    def same(self, one: Expr, other: Expr) -> NDArray[numpy.float64]:
        """1 where two index expressions agree, 0 elsewhere, broadcast over the axes of the grid."""
        return (numpy.asarray(self.positions(one)) == self.positions(other)).astype(numpy.float64)

    def read(self, array: Array, indices: Sequence[Expr], tail: int) -> Array:
        """`array[:, *indices, ...]` with dimensions (draw, *axes, last `tail` of the array); −1 reads zero."""
        if (whole := self._whole(array, indices)) is not None:
            return whole
        places: list[Any] = [self.positions(i) for i in indices]
        picked = array[(slice(None), *places)] if places else array
        full = numpy.broadcast_shapes(*(numpy.shape(p) for p in places))
        full = (1,) * (len(self._order) - len(full)) + full
        picked = picked.reshape((array.shape[0], *full, *array.shape[array.ndim - tail :]))
        for index, place in zip(indices, places, strict=True):
            if isinstance(index, Lookup) and numpy.min(place) < 0:
                present = (numpy.broadcast_to(place, full) >= 0).reshape((1, *full, *(1,) * tail))
                picked = numpy.where(present, picked, 0.0)
        return picked

    def _whole(self, array: Array, indices: Sequence[Expr]) -> Array | None:
        """Whole axes in the order of the grid, which most bodies read: a view, where indices would copy the array."""
        named = {i.name: size for i, size in zip(indices, array.shape[1:], strict=False) if isinstance(i, Symbol)}
        read = [a for a in self._order if a in named]
        if len(named) < len(indices) or list(named) != read or any(named[a] != self.sizes[a] for a in read):
            return None
        axes = tuple(named.get(a, 1) for a in self._order)
        return array.reshape((array.shape[0], *axes, *array.shape[1 + len(indices) :]))


class Scatter(NamedTuple):
    """What is added (`summand`), where data say (`index`), along the axis that runs as `onto`."""

    summand: Expr
    index: DataIndex
    onto: Symbol


def scatter(total: AxisSum) -> Scatter | None:
    """A sum as a scatter, if it is one."""
    factors = sympy.Mul.make_args(total.summand)
    for kron in (f for f in factors if isinstance(f, Kron)):
        for index, onto in (kron.args, kron.args[::-1]):
            if not isinstance(index, DataIndex) or not isinstance(onto, Symbol) or onto == total.bound:
                continue
            rest = sympy.Mul(*(f for f in factors if f is not kron))
            if total.bound in index.free_symbols and onto not in {*free_axes(rest), *index.free_symbols}:
                return Scatter(rest, index, onto)
    return None


def scattered(values: Array, places: NDArray[numpy.int64], summed: int, onto: int, size: int) -> Array:
    """`values` added up along the dimension `summed`, each at its place along `onto`, where values have one entry."""
    shape = list(numpy.broadcast_shapes(values.shape, places.shape))
    terms = numpy.moveaxis(numpy.broadcast_to(values, shape), summed, 0)
    along = numpy.moveaxis(numpy.broadcast_to(places, shape), summed, 0)
    shape[summed], shape[onto] = 1, size
    found = numpy.zeros(shape)
    for term, place in zip(terms, along, strict=True):  # one index of the sum never meets a place twice
        at = numpy.expand_dims(place, summed)
        more = numpy.take_along_axis(found, at, onto) + numpy.expand_dims(term, summed)
        numpy.put_along_axis(found, at, more, onto)
    return found
