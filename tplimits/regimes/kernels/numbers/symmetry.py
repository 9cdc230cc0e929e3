"""K(ξ, ξ′) and K(ξ′, ξ): arrays (N1, N2, *axes, *axes) as matrices of (input, axes) pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy
from numpy.typing import NDArray

Array = NDArray[Any]


def transposed(value: Array) -> Array:
    """K(ξ′, ξ) from K(ξ, ξ′)."""
    axes = value.ndim // 2 - 1
    return value.transpose((1, 0, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)))


def symmetric(value: Array) -> Array:
    """A symmetric kernel without what rounding makes of it: entries below the diagonal are those above."""
    if numpy.array_equal(value, transposed(value), equal_nan=True):
        return value
    found = numpy.array(value)
    lower = numpy.tril_indices(len(found), -1)
    found[lower] = transposed(found)[lower]
    rows = math.prod(found.shape[2 : found.ndim // 2 + 1])
    if rows > 1:  # outputs of one input
        one = numpy.arange(len(found))
        own = found[one, one].reshape(len(found), rows, rows)
        below = numpy.tril_indices(rows, -1)
        own[:, below[0], below[1]] = own[:, below[1], below[0]]
        found[one, one] = own.reshape(len(found), *found.shape[2:])
    return found
