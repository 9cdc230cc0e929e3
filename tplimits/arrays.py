"""The types of arrays, of real numbers and of anything; the entries of a covariance in order."""

from typing import Any

import numpy
from numpy.typing import NDArray

Array = NDArray[numpy.float64]
AnyArray = NDArray[Any]


def pairs(m: int) -> list[tuple[int, int]]:
    """The pairs a ≤ b in row order: entries of a covariance as a vector."""
    return [(a, b) for a in range(m) for b in range(a, m)]
