"""Roots of covariances: what standard normal variables are multiplied by.

A covariance of equal or dependent variables has eigenvalues that are rounding, on either side of zero; those below
count as zero here.  Whoever knows how large rounding is refuses what lies further below.
"""

from __future__ import annotations

import numpy

from tplimits.arrays import Array


def spectrum(covariance: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and eigenvectors of matrices (…, m, m) that are symmetric but for rounding."""
    # eigh reads one triangle
    values, vectors = numpy.linalg.eigh((covariance + numpy.swapaxes(covariance, -1, -2)) / 2)
    return values, vectors


def root(covariance: Array) -> Array:
    """R with R Rᵀ = C, its columns along the eigenvectors, the shortest first."""
    return along(*spectrum(covariance))


def along(values: Array, vectors: Array) -> Array:
    """R with R Rᵀ = C from the eigenvalues and eigenvectors of C."""
    return vectors * numpy.sqrt(values.clip(0.0))[..., None, :]


def composed(values: Array, vectors: Array) -> Array:
    """The matrix with these eigenvalues, those below zero dropped, and eigenvectors."""
    return numpy.asarray((vectors * values.clip(0.0)[..., None, :]) @ numpy.swapaxes(vectors, -1, -2))
