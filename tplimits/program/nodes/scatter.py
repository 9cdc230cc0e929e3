"""Sums Σ_t δ[x[t], v] g[t] over entries that data put at v: every g[t] is added at one place, no product is formed.

They are the gradients of values that are read at indices from data: what was read there goes back there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import AxisSum, DataIndex, Kron, free_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.program.nodes.evaluate import Array


class Scatter(NamedTuple):
    """What is added (`summand`), where data say (`index`), along the axis that runs as `onto`."""

    summand: Expr
    index: DataIndex
    onto: Symbol


def scatter(total: AxisSum) -> Scatter | None:
    """A sum as a scatter, if it is one.

    >>> from tplimits.program.nodes.entries import NO_NEURON, Entry, axis_symbol
    >>> t, v = axis_symbol("t′1"), axis_symbol("v")
    >>> x, g = DataIndex(sympy.Integer(0), t), Entry(sympy.Integer(1), NO_NEURON, t)
    >>> scatter(AxisSum(g * Kron(x, v), t, Symbol("t")))
    Scatter(summand=Entry(1, ·, t′1), index=DataIndex(0, t′1), onto=v)
    """
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
    """`values` added up along the dimension `summed`, each at its place along `onto`, where values have one entry.

    >>> g, x = numpy.array([[1.0], [2.0], [3.0]]), numpy.array([[1], [0], [1]])
    >>> scattered(g, x, summed=0, onto=1, size=2).tolist()
    [[2.0, 4.0]]
    """
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
