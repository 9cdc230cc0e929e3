"""Arrays of numbers alone: rounding taken off, the fractions they stand for, scales of rows and columns apart."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeVar

import numpy

Number = TypeVar("Number", float, Fraction)

#: numbers in arrays closer than this are equal
TOLERANCE = 1e-12
#: larger numbers may cancel, and leave what is near to them by this number of tolerances
LARGE = 1e6
#: entries below this part of the largest of their row and of their column do not count for scales of these
_DUST = 1e-14
#: a diagonal below this part of what stands beside it is not told from it
_KEPT = 1 / 16
#: what is left of a sum is rounding below this part of its terms
CANCELLED = 1e-13


def exactly(number: float | Fraction) -> Fraction:
    """The simple fraction a number of an array stands for, or its own value."""
    # masks and means hold simple fractions; as binary values they would not cancel against the program's own 1/3
    # smaller denominators for larger numbers, of which each would be near to some fraction
    own = Fraction(number)
    simple = own.limit_denominator(max(1, int(1e4 / math.sqrt(max(1.0, float(abs(own)))))))
    return simple if same(simple, own) else own


def same(one: Number, other: Number) -> bool:
    """Whether two numbers differ by rounding alone: of large ones by no more than may be left out of a difference."""
    return abs(one - other) <= TOLERANCE * min(float(abs(other)), LARGE)


def constant(values: numpy.ndarray) -> bool:
    """Whether all entries are one number."""
    return bool(numpy.ptp(values) <= TOLERANCE * float(numpy.abs(values).max()))


def without_background(values: numpy.ndarray) -> list[numpy.ndarray]:
    """A square array that is constant off its diagonal as that constant and a diagonal array; others as they are.

    A diagonal that is small beside the constant stays whole: another array may make it large again, and the difference
    of both holds none of its digits.
    """
    if values.ndim != 2 or values.shape[0] != values.shape[1] or len(values) < 2:
        return [values]
    off, diagonal = values[~numpy.eye(len(values), dtype=bool)], numpy.abs(values.diagonal())
    lost = (diagonal > 0) & (diagonal < _KEPT * numpy.abs(off).max())
    if not constant(off) or not off.any() or constant(values) or lost.any():
        return [values]
    background = numpy.full_like(values, off.mean())
    return [background, numpy.diag(numpy.diag(values - background))]


def sum_over(values: numpy.ndarray, at: list[int], kept: list[int]) -> numpy.ndarray:
    """An array summed over indices, 0 where nothing but rounding is left of the sum."""
    total = numpy.einsum(values, at, kept)
    return numpy.where(numpy.abs(total) > CANCELLED * numpy.einsum(numpy.abs(values), at, kept), total, 0.0)


def scale_of(values: numpy.ndarray) -> float:
    """The entry of largest size, the first among equals, so that the array divided by it is defined by its shape."""
    sizes = numpy.abs(values).ravel()
    return float(values.ravel()[numpy.flatnonzero(sizes >= sizes.max() * (1 - 1e-9))[0]])


def balanced(values: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """D, Q, E with values = D(i) Q(i, j) E(j): least squares of log|values|, dust left out.

    e^(−40) of a mask beside 1 in its row and its column says nothing of their scales, but e^(−33) in a row of e^(−25)
    is a weight like others: a softmax divides by the row.
    """
    sizes = numpy.abs(values)
    beside = numpy.minimum(sizes.max(axis=0, keepdims=True), sizes.max(axis=1, keepdims=True))
    support = numpy.argwhere((sizes > 0) & (sizes >= _DUST * beside))
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
