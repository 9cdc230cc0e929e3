"""Cholesky factors and eigenvalues of kernel matrices, in the memory of the matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy
import scipy.linalg
from scipy.linalg import lapack

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: of a matrix with a larger condition number no digit of a solution is certain
_CONDITION = 1e14
#: noise that is proposed, in units of the mean of the diagonal
_PROPOSED = 1e-8


@dataclass(frozen=True)
class Factor:
    """K + noise·I = L Lᵀ; L is the lower triangle of `lower`, above it stands what was there."""

    lower: Array

    def solve(self, right: Array) -> Array:
        """(K + noise·I)⁻¹ right."""
        return numpy.asarray(lapack.dpotrs(self.lower, right, lower=1)[0])

    def half(self, right: Array) -> Array:
        """L⁻¹ right, in the place of `right` if its columns are contiguous."""
        return numpy.asarray(lapack.dtrtrs(self.lower, right, lower=1, overwrite_b=1)[0])

    @property
    def log_determinant(self) -> float:
        """log det (K + noise·I)."""
        return 2 * float(numpy.log(self.lower.diagonal()).sum())


def factored(gram: Array, noise: float, name: str) -> Factor:
    """The factor, written over a matrix whose columns are contiguous.

    Raises EvaluationError, with the smallest eigenvalue, where the matrix is not positive definite in double precision.
    """
    numpy.einsum("ii->i", gram)[...] += noise
    diagonal = gram.diagonal().copy()
    norm = lapack.dlange("1", gram)
    lower, failed = lapack.dpotrf(gram, lower=1, clean=0, overwrite_a=1)
    condition = math.inf if failed else 1 / max(lapack.dpocon(lower, norm, uplo="L")[0], 1e-300)
    if condition < _CONDITION:
        return Factor(lower)
    numpy.einsum("ii->i", lower)[...] = diagonal  # the upper triangle is untouched
    values = scipy.linalg.eigvalsh(lower, lower=False, overwrite_a=True, check_finite=False)
    raise EvaluationError(_singular(name, len(diagonal), values[0], values[-1], noise, float(diagonal.mean())))


def eigen(gram: Array, noise: float, name: str) -> tuple[Array, Array]:
    """Eigenvalues of K + noise·I, ascending, and eigenvectors; overwrites the matrix.  What is 0 within rounding is 0.

    Raises EvaluationError where one is clearly negative.
    """
    mean = float(gram.diagonal().mean())
    values, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evr")
    values += noise
    if values[0] < -_rounding(values):
        raise EvaluationError(_singular(name, len(values), values[0], values[-1], noise, mean))
    return numpy.where(values > _rounding(values), values, 0.0), vectors


def refuse_singular(values: Array, noise: float, name: str) -> None:
    """Refuse eigenvalues that cannot be divided by."""
    if values[0] <= 0 or values[-1] / values[0] > _CONDITION:
        raise EvaluationError(_singular(name, len(values), values[0], values[-1], noise, float(values.mean())))


def _rounding(values: Array) -> float:
    return 4 * len(values) * float(numpy.finfo(numpy.float64).eps) * float(numpy.abs(values).max())


def _singular(name: str, rows: int, smallest: float, largest: float, noise: float, mean: float) -> str:
    added = f" with noise={noise:g} added" if noise else ""
    proposed = noise + max(_PROPOSED * abs(mean), 2 * max(-smallest, 0.0))
    return (
        f"the {name.upper()} matrix of {rows} rows{added} has eigenvalues from {smallest:.3g} to {largest:.3g}: it is "
        "not positive definite in double precision (an input given twice, or more inputs than the kernel tells apart). "
        f"Give noise={proposed:.1g}."
    )
