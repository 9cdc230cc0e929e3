"""Means over replicates, or over draws, with their standard errors."""

from __future__ import annotations

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import standard_error


def mean_and_error(values: Array) -> tuple[Array, Array]:
    """The mean over the first axis and its standard error; EvaluationError where they are too large for numbers."""
    with numpy.errstate(all="ignore"):
        mean, stderr = values.mean(axis=0), standard_error(values)
    if not (numpy.isfinite(mean).all() and numpy.isfinite(stderr).all()):
        raise EvaluationError(
            "the outputs are beyond 1e150, where their errors are no numbers: training diverges. Give a smaller lr."
        )
    return mean, stderr
