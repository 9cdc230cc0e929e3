"""K(ξ, ξ′) and K(ξ′, ξ): arrays (N1, N2, *axes, *axes) as matrices of (input, axes) pairs."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy
from numpy.typing import NDArray

from tplimits.arrays import AnyArray as Array

#: columns that are written together
_TOGETHER = 64


def transposed(value: Array) -> Array:
    """K(ξ′, ξ) from K(ξ, ξ′)."""
    axes = value.ndim // 2 - 1
    return value.transpose((1, 0, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)))


def as_matrix(value: Array) -> Array:
    """(N, N′, *axes, *axes′) as a matrix of (input, axes) pairs."""
    axes = value.ndim // 2 - 1
    moved = value.transpose((0, *range(2, 2 + axes), 1, *range(2 + axes, 2 + 2 * axes)))
    return moved.reshape(math.prod(moved.shape[: 1 + axes]), -1)


def put_transposed(target: Array, value: Array) -> None:
    """Write K(ξ′, ξ) into an array, some columns at a time: whole ones are far apart in memory."""
    for i in range(0, len(value), _TOGETHER):
        target[:, i : i + _TOGETHER] = transposed(value[i : i + _TOGETHER])


def mirrored(value: Array) -> None:
    """Write what is above the diagonal below it, in place."""
    below = _below(len(value)).reshape(len(value), -1, *[1] * (value.ndim - 2))
    numpy.copyto(value, transposed(value), where=below)


@lru_cache(maxsize=64)
def _below(many: int) -> NDArray[numpy.bool_]:
    return numpy.tri(many, k=-1, dtype=bool)


def _is_symmetric(value: Array) -> bool:
    """Whether all entries are those on the other side; NaN is not."""
    starts = [slice(i, i + _TOGETHER) for i in range(0, len(value), _TOGETHER)]
    return all((value[s, s.start :] == transposed(value[s.start :, s])).all() for s in starts)


def symmetric(value: Array) -> Array:
    """A symmetric kernel without what rounding makes of it: entries below the diagonal are those above."""
    if _is_symmetric(value):
        return value
    found = numpy.array(value)
    mirrored(found)
    rows = math.prod(found.shape[2 : found.ndim // 2 + 1])
    if rows > 1:  # outputs of one input
        one = numpy.arange(len(found))
        own = found[one, one].reshape(len(found), rows, rows)
        below = numpy.tril_indices(rows, -1)
        own[:, below[0], below[1]] = own[:, below[1], below[0]]
        found[one, one] = own.reshape(len(found), *found.shape[2:])
    return found
