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
    return along(covariance, *spectrum(covariance))


def along(covariance: Array, values: Array, vectors: Array) -> Array:
    """R with R Rᵀ = C from the eigenvalues and eigenvectors of C; 0 for variables of no variance.

    Rounding would leave 10⁻¹⁷ of them, which a jump at zero takes for something.
    """
    varies = numpy.einsum("...ii->...i", covariance) > 0
    return vectors * numpy.where(varies[..., None], numpy.sqrt(values.clip(0.0))[..., None, :], 0.0)


def composed(values: Array, vectors: Array) -> Array:
    """The matrix with these eigenvalues, those below zero dropped, and eigenvectors."""
    return numpy.asarray((vectors * values.clip(0.0)[..., None, :]) @ numpy.swapaxes(vectors, -1, -2))
