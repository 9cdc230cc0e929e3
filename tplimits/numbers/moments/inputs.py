"""Gram matrices of inputs with determinants that keep their digits at nearly collinear pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from tplimits.program.nodes.evaluate import Array

#: below this share of c11·c22 a determinant is computed again, from the residual
NEARLY_COLLINEAR = 1e-6
_ROWS = 4096


def input_gram(first: Array, second: Array) -> tuple[Array, Array, Array, Array]:
    """(c11, c12, c22, det) of the rows x of `first` and x' of `second`: shapes (N, 1), (N, M), (1, M), (N, M).

    Not divided by the dimension.  det is c11 c22 − c12², and for the pairs for which this cancels |x|² |x' − tx|²
    with t = x·x'/|x|², to a relative error of about 1e-15/√(det/c11c22) where this is larger than its own rounding.

    >>> x, y = numpy.array([[1.0, 2.0]]), numpy.array([[1.0, 2.0 + 2.0**-40]])
    >>> round(float(input_gram(x, y)[-1].item()) * 2.0**80, 12)
    1.0
    """
    first, second = numpy.atleast_2d(first), numpy.atleast_2d(second)
    c11 = numpy.einsum("ij,ij->i", first, first)[:, None]
    c22 = numpy.einsum("ij,ij->i", second, second)[None, :]
    c12 = first @ second.T
    # numbers are all collinear: exactly 0, not the rounding of a difference
    if first.shape[1] == 1:
        return c11, c12, c22, numpy.zeros_like(c12)
    product = c11 * c22
    det = product - c12 * c12
    rows, columns = numpy.nonzero(det < NEARLY_COLLINEAR * product)
    numpy.maximum(det, 0.0, out=det)
    for start in range(0, len(rows), _ROWS):
        i, j = rows[start : start + _ROWS], columns[start : start + _ROWS]
        det[i, j] = residual_determinant(first[i], second[j])
    return c11, c12, c22, det


def residual_determinant(x: Array, y: Array) -> Array:
    """|x|² |y − tx|² row by row, x scaled by the power of two that makes t about one."""
    norm = numpy.einsum("ij,ij->i", x, x)
    share = numpy.einsum("ij,ij->i", x, y) / numpy.where(norm > 0, norm, 1.0)
    residual = y - share[:, None] * x
    # once more: what is left of x in the residual after rounding
    again = numpy.einsum("ij,ij->i", x, residual) / numpy.where(norm > 0, norm, 1.0)
    residual -= again[:, None] * x
    return norm * numpy.einsum("ij,ij->i", residual, residual)
