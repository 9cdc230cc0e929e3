"""Arrays of numbers alone: rounding taken off, the fractions they stand for, scales of rows and columns apart."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy

#: numbers in arrays closer than this are equal
TOLERANCE = 1e-12
#: entries below this part of the largest beside them are zero
_DUST = 1e-14
#: what is left of a sum is rounding below this part of its terms
CANCELLED = 1e-13


def exactly(number: float) -> Fraction:
    """The simple fraction a number of an array stands for, or its binary value."""
    # masks and means hold simple fractions; as binary values they would not cancel against the program's own 1/3
    # smaller denominators for larger numbers, of which each would be near to some fraction
    simple = Fraction(number).limit_denominator(max(1, int(1e4 / math.sqrt(max(1.0, abs(number))))))
    return simple if abs(float(simple) - number) <= TOLERANCE * abs(number) else Fraction(number)


def constant(values: numpy.ndarray) -> bool:
    """Whether all entries are one number."""
    return bool(numpy.ptp(values) <= TOLERANCE * float(numpy.abs(values).max()))


def without_background(values: numpy.ndarray) -> list[numpy.ndarray]:
    """A square array that is constant off its diagonal as that constant and a diagonal array; others as they are."""
    if values.ndim != 2 or values.shape[0] != values.shape[1] or len(values) < 2:
        return [values]
    off = values[~numpy.eye(len(values), dtype=bool)]
    if not constant(off) or not off.any() or constant(values):
        return [values]
    background = numpy.full_like(values, off.mean())
    return [background, numpy.diag(numpy.diag(values - background))]


def without_dust(values: numpy.ndarray) -> numpy.ndarray:
    """Entries that are rounding beside the largest of their row and of their column put to zero.

    e^(−40) of a mask is none of its tokens, but e^(−33) in a row of e^(−25) is a weight: a softmax divides by the row.
    Of more indices it is a row and a column of two of them: the mask of all heads may be one.  Of one index nothing is
    summed, and a small entry is all that its token has.
    Only of what a program gives: parts of a normal form may be small where others are large.
    """
    if values.ndim < 2 or not values.any():
        return values
    sizes = numpy.abs(values)
    along = [numpy.broadcast_to(sizes.max(a, keepdims=True), sizes.shape) for a in range(sizes.ndim)]
    return numpy.where(sizes < _DUST * numpy.sort(along, axis=0)[-2:][0], 0.0, values)


def sum_over(values: numpy.ndarray, at: list[int], kept: list[int]) -> numpy.ndarray:
    """An array summed over indices, 0 where nothing but rounding is left of the sum."""
    total = numpy.einsum(values, at, kept)
    return numpy.where(numpy.abs(total) > CANCELLED * numpy.einsum(numpy.abs(values), at, kept), total, 0.0)


def scale_of(values: numpy.ndarray) -> float:
    """The entry of largest size, the first among equals, so that the array divided by it is defined by its shape."""
    sizes = numpy.abs(values).ravel()
    return float(values.ravel()[numpy.flatnonzero(sizes >= sizes.max() * (1 - 1e-9))[0]])


def balanced(values: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """D, Q, E with values = D(i) Q(i, j) E(j): least squares of log|values| on its support."""
    support = numpy.argwhere(values != 0)
    rows, columns = values.shape
    design = numpy.zeros((len(support), rows + columns))
    design[numpy.arange(len(support)), support[:, 0]] = 1.0
    design[numpy.arange(len(support)), rows + support[:, 1]] = 1.0
    logs = numpy.log(numpy.abs(values[tuple(support.T)]))
    fit = numpy.linalg.lstsq(design, logs, rcond=None)[0]
    held = design.sum(axis=0) > 0
    for part in (slice(0, rows), slice(rows, None)):  # zeros are balanced as they stand: like the rest of their side
        fit[part][~held[part]] = fit[part][held[part]].mean()
    D, E = numpy.exp(fit[:rows]), numpy.exp(fit[rows:])
    return D, values / D[:, None] / E[None, :], E
