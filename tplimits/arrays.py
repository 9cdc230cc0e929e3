"""The types of arrays, of real numbers and of anything; the entries of a covariance in order."""

from typing import Any

import numpy
from numpy.typing import NDArray

Array = NDArray[numpy.float64]
AnyArray = NDArray[Any]
#: powers that are products: NumPy's take a hundred times as long, and so many factors are rounded within the bound of
#: one operation, four units of 2⁻⁵³
_FACTORS = 5


def pairs(m: int) -> list[tuple[int, int]]:
    """The pairs a ≤ b in row order: entries of a covariance as a vector."""
    return [(a, b) for a in range(m) for b in range(a, m)]


def distinct_rows(table: AnyArray) -> tuple[AnyArray, NDArray[numpy.intp]]:
    """(the different rows in order, which of them each row is), as `numpy.unique` tells of finite numbers.

    Column by column, since NumPy compares rows ten times as slowly as numbers.

    >>> distinct_rows(numpy.array([[1.0, 3.0], [0.0, 5.0], [1.0, 3.0]]))
    (array([[0., 5.],
           [1., 3.]]), array([1, 0, 1]))
    """
    place = numpy.zeros(len(table), dtype=numpy.intp)
    first = place[:1]
    for column in table.T:
        values, among = numpy.unique(column, return_inverse=True)
        # numbers again after every column: products of their counts would not stay in range
        _, first, place = numpy.unique(place * len(values) + among, return_index=True, return_inverse=True)
    return table[first], place


def raised(base: Any, exponent: float) -> Any:
    """A power on arrays, entry by entry."""
    if exponent == 2:
        return base * base
    if exponent == 0.5:
        return numpy.sqrt(base)
    if exponent == -1:
        return numpy.divide(1.0, base)
    if exponent == -0.5:
        return numpy.divide(1.0, numpy.sqrt(base))
    if exponent == -2:
        inverse = numpy.divide(1.0, base)
        return inverse * inverse
    if exponent in range(3, _FACTORS + 1):
        square = base * base
        even = square if exponent == 3 else square * square
        return even if exponent == 4 else even * base
    # whole exponents stay exact for negative bases
    return numpy.power(base, int(exponent) if exponent in range(1, 65) else exponent)
