"""What frames do with arrays: entries at places, and functions entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array, raised
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, step, union


@step(lambda values, places, labels, sizes: labels)
def indexed(
    values: Sequence[Labelled], places: tuple[Any, ...], labels: tuple[str, ...], sizes: tuple[int, ...]
) -> Labelled:
    """Entries at places; −1 reads zero."""
    array = values[0].array
    front = len(labels) - len(sizes)
    where: tuple[Any, ...] = (*(slice(None),) * front, *places)
    picked = array[where]
    if any(numpy.min(p) < 0 for p in places):
        present = numpy.logical_and.reduce(numpy.broadcast_arrays(*(p >= 0 for p in places)))
        picked = numpy.where(present, picked, array.dtype.type(0))
    return Labelled(numpy.broadcast_to(picked, (*picked.shape[:front], *sizes)), labels)


@step(lambda values, front: _of_lookup(values, front))
def looked_up(values: Sequence[Labelled], front: tuple[str, ...]) -> Labelled:
    """Entries of an array at arrays of places, one for each of its dimensions behind those of `front`; −1 reads 0."""
    array, places = values[0].array, values[1:]
    labels = _of_lookup(values, front)
    run = [Labelled(numpy.arange(size), (x,)) for x, size in zip(front, array.shape, strict=False)]
    found = [p.at(labels).astype(numpy.intp) for p in (*run, *places)]
    picked = array[tuple(found)]
    for place in (p for p in found if p.size and p.min() < 0):
        picked = numpy.where(place < 0, array.dtype.type(0), picked)
    return Labelled(picked, labels)


def _of_lookup(values: Sequence[Any], front: tuple[str, ...]) -> tuple[str, ...]:
    return union([Labelled(numpy.empty(()), front), *values[1:]])


def same(one: Array, other: Array) -> Array:
    """1 where two places agree."""
    return ((one == other) & (one >= 0)).astype(numpy.float64)


def one_more(place: Array) -> Array:
    """Places counted from 1, so that 0 stands for none."""
    return place + 1.0


def one_less(place: Array) -> Array:
    """Places counted from 0 again, −1 for none."""
    return place - 1.0


def added(*arrays: Array) -> Array:
    """The sum."""
    return sum(arrays[1:], arrays[0])


def reciprocal(x: Array) -> Array:
    """1/x."""
    return 1.0 / x


def reciprocal_root(x: Array) -> Array:
    """1/√x."""
    return 1.0 / numpy.sqrt(x)


@lru_cache(maxsize=256)
def power(exponent: Expr) -> Any:
    """The function x ↦ x^e of arrays."""
    if exponent == 2:
        return numpy.square
    if exponent == -1:
        return reciprocal
    if exponent == sympy.S.Half:
        return numpy.sqrt
    if exponent == -sympy.S.Half:
        return reciprocal_root
    return partial(raised, exponent=float(exponent))
