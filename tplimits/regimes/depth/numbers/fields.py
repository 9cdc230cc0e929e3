"""Expressions of scalars of order 1 on arrays, at draws of the scalars and at all indices of axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Dummy, Expr, Symbol

from tplimits.arrays import Array
from tplimits.program.nodes.entries import AxisSum, Entry
from tplimits.program.nodes.evaluate import evaluate
from tplimits.regimes.depth.algebra.data import outermost

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Field:
    """Expressions of scalars at all indices: arrays (points, …) with the indices they stand at."""

    program: Program
    #: numbers of constants and of the sizes of axes
    values: Mapping[Expr, float]
    size: Callable[[str], int]
    scalars: Mapping[int, Array]
    V: Array

    def of(self, expr: Expr) -> tuple[Array, tuple[Symbol, ...]]:
        """An expression as an array, and the index of each dimension after the first."""
        parts = {leaf: self._leaf(leaf) for leaf in outermost(expr)}
        axes = tuple(dict.fromkeys(a for _, at in parts.values() for a in at))
        known: dict[Expr, Any] = dict(self.values)
        change = {}
        for leaf, (array, at) in parts.items():
            symbol = Dummy(real=True)
            change[leaf], known[symbol] = symbol, _aligned(array, at, axes)
        # a difference of logits to a masked one may overflow: its weight is 1/∞ = 0
        with numpy.errstate(over="ignore"):
            value = numpy.asarray(evaluate(expr.xreplace(change), known))
        points = max((x.shape[0] for x in self.scalars.values()), default=1)
        shape = [max((known[s].shape[1 + k] for s in change.values()), default=1) for k in range(len(axes))]
        return numpy.broadcast_to(value, (points, *shape)), axes

    def at(self, expr: Expr, axes: tuple[Symbol, ...]) -> Array:
        """The same at given indices, of size 1 where nothing depends on one: (points, *axes)."""
        array, own = self.of(expr)
        return _aligned(array, own, axes)

    def _leaf(self, leaf: Expr) -> tuple[Array, tuple[Symbol, ...]]:
        if isinstance(leaf, AxisSum):
            array, axes = self.of(leaf.summand)
            if leaf.bound not in axes:
                # a summand without the index is added once for every member
                return array * self.size(leaf.axis), axes
            place = axes.index(leaf.bound)
            return array.sum(axis=1 + place), (*axes[:place], *axes[place + 1 :])
        if isinstance(leaf, Entry):
            array, at = self.V[None] if leaf.source == self.program.state else self.scalars[leaf.source], leaf.indices
        else:
            array, at = self.program.arrays[leaf.array].values[None], leaf.indices
        different = tuple(dict.fromkeys(at))
        # an index that stands twice, as in S[i, i], takes the diagonal
        places: Any = [0, *(1 + different.index(i) for i in at)]
        kept: Any = [0, *range(1, 1 + len(different))]
        values: Any = array
        return numpy.einsum(values, places, kept), different


def _aligned(array: Array, at: tuple[Symbol, ...], axes: tuple[Symbol, ...]) -> Array:
    ordered = array.transpose(0, *(1 + at.index(a) for a in axes if a in at))
    sizes = iter(ordered.shape[1:])
    return ordered.reshape(ordered.shape[0], *(next(sizes) if a in at else 1 for a in axes))
