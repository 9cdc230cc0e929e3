"""Into which directions draws of Gaussian scalars are led for products of weights: the slopes of what grows steeply."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.program.nodes.entries import AxisSum, Entry, entries
from tplimits.program.nodes.properties import BOUNDED, LINEAR
from tplimits.regimes.depth.numbers.ranges import floor, limits
from tplimits.regimes.depth.numbers.slopes import CHOOSING, HIGH, Axes, Slopes, UnknownGrowthError

if TYPE_CHECKING:
    from tplimits.regimes.depth.numbers.fields import Field

#: slopes of products of weights at all their places
_MOST_PRODUCTS = 1 << 16
#: scalars, variances of exponents that draws see unled, and directions into which they can be led
_LARGEST, _SEEN, _MOST_SHIFTS = 512, 1.0, 1024
#: the label of a weight, and its indices in a product
Factor = tuple[str, tuple[int, ...]]


def directions(
    field: Field, law: Array, weights: Mapping[str, tuple[Expr, Axes]], terms: Iterable[Sequence[Factor]]
) -> Array | None:
    """The slopes of products of weights that draws need to be led into, (slopes, scalars).

    None where those of a weight are not known, or they are too many.
    """
    if all(is_flat(function, field.program.state) for function, _ in weights.values()):
        return numpy.zeros((0, len(law)))
    read = list(terms)
    for powers in (True, False) if len(law) <= _LARGEST else ():
        try:
            known = {label: Slopes(field, law, powers).of(*weight) for label, weight in weights.items()}
            found = numpy.concatenate([_products([(known[f[0]], f[1]) for f in term], law) for term in read])
        except UnknownGrowthError:
            continue
        variances = numpy.einsum("ai,ij,aj->a", found, law, found)
        steep = numpy.unique(found[variances > _SEEN].round(12), axis=0)
        if len(steep) <= _MOST_SHIFTS:
            return steep
    return None


def is_flat(expr: Expr, state: int | None) -> bool:
    """Whether a function is seen to grow as a low power at most, as what draws see without being led."""
    moving = any(e.source != state for e in entries(expr))
    if not moving or isinstance(expr, (Entry, *BOUNDED)):
        return True
    if isinstance(expr, sympy.exp):
        return bool(limits(expr.args[0], state)[1] < sympy.oo)
    if expr.is_Pow and expr.exp.is_number:
        low = expr.exp < HIGH or limits(expr, state)[1] < sympy.oo
        return low and is_flat(expr.base, state) if expr.exp > 0 else floor(expr.base, state) is not None
    flat = (sympy.Add, sympy.Mul, *CHOOSING, *LINEAR)
    if isinstance(expr, AxisSum):
        return is_flat(expr.summand, state)
    return isinstance(expr, flat) and all(is_flat(a, state) for a in expr.args)


def _products(factors: Sequence[tuple[list[Array], tuple[int, ...]]], law: Array) -> Array:
    """The slopes of a product of weights at indices, those of equal indices at the same places."""
    given = [(numpy.stack(numpy.broadcast_arrays(*slopes)), at) for slopes, at in factors]
    # of what is flat everywhere there is nothing to add up
    if not any(a.any() for a, _ in given):
        return numpy.zeros((1, len(law)))
    sizes = dict[int, int]()
    for a, at in given:
        for i, size in zip(at, a.shape[1:-1], strict=True):
            sizes[i] = max(size, sizes.get(i, 1))
    if math.prod(sizes.values()) * math.prod(len(a) for a, _ in given) > _MOST_PRODUCTS:
        raise UnknownGrowthError
    places = dict(zip(sizes, numpy.ix_(*map(range, sizes.values())), strict=True))
    total = numpy.zeros((1, *(1,) * len(sizes), len(law)))
    for a, at in given:
        # a size of 1 stands for all places of an index
        there = [places[i] * (size > 1) for i, size in zip(at, a.shape[1:-1], strict=True)]
        apart = a[:, *there]
        shape = numpy.broadcast_shapes((1,) * len(sizes), *(x.shape for x in there))
        added = total[:, None] + apart.reshape(len(a), *shape, len(law))
        total = added.reshape(-1, *added.shape[2:])
    return total.reshape(-1, len(law))
