"""Determinants of Gram matrices that keep their digits at nearly collinear pairs of inputs."""

from __future__ import annotations

import numpy

from tplimits.arrays import Array


def residual_determinant(x: Array, y: Array) -> Array:
    """|x|² |y − tx|² row by row, x scaled by the power of two that makes t about one."""
    norm = numpy.einsum("ij,ij->i", x, x)
    share = numpy.einsum("ij,ij->i", x, y) / numpy.where(norm > 0, norm, 1.0)
    residual = y - share[:, None] * x
    # once more: what is left of x in the residual after rounding
    again = numpy.einsum("ij,ij->i", x, residual) / numpy.where(norm > 0, norm, 1.0)
    residual -= again[:, None] * x
    return norm * numpy.einsum("ij,ij->i", residual, residual)
