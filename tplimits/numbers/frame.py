"""Independent coordinates for correlated linear forms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: a direction that has less than this part of a form's variance is taken as dependent
_DEPENDENT = 1e-10
#: relative rounding of a covariance: a variance below this, relative to what it was added up from, is zero
_ROUNDING = 1e-14
#: a variance below zero by more than this, relative to what it was added up from, is an error of the covariances
_NEGATIVE = 1e-6


@dataclass(frozen=True)
class Frame:
    """Independent coordinates for correlated forms: values = constant + factor · u."""

    factor: Array  # (forms, rank)

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])


def independent_frame(covariance: Array, summed: Any = None) -> Frame:
    """A rank-revealing Cholesky factor, first forms first (kinked ones are put last by the caller).

    `summed` is, for each form Σ c_i v_i, the size (Σ |c_i| σ_i)² that its variance was added up from: the
    variance of a − b is rounding where a and b are one function in two algebraic forms.
    """
    size = covariance.shape[0]
    rest, columns = covariance.copy(), []
    summed = numpy.diag(covariance) if summed is None else summed
    # what never moves has a variance of zero, and a covariance of rounding with what does
    off = _ROUNDING**2 * max(summed, default=0)
    for j in range(size):
        if rest[j, j] > max(_DEPENDENT * covariance[j, j], _ROUNDING * summed[j], 1e-300):
            column = rest[:, j] / math.sqrt(rest[j, j])
            rest = rest - numpy.outer(column, column)
            columns.append(column)
        elif rest[j, j] < -max(_NEGATIVE * summed[j], off):
            raise EvaluationError(
                f"a covariance of variance {rest[j, j]:.3g} < 0 met in a quadrature: not a Gram matrix."
            )
    return Frame(numpy.array(columns).T.reshape(size, len(columns)))
