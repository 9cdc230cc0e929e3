"""Sums of two powers: what is a n^p + b n^(p − ½) has no slope of its own on a line of logarithms.

At widths that can be run, the second term may be the larger one, so that a fit of one power lies between the two.  With
p given, the sum is linear in a and b: it is fitted by weighted least squares, and a is judged beside its error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

#: a leading term counts beyond so many standard errors
ERRORS = 3.0


@dataclass(frozen=True)
class TwoPowers:
    """a n^p + b n^(p − gap): both coefficients, the standard error of a, and the part of a n^p at the largest width."""

    leading: float
    second: float
    error: float
    share: float

    @property
    def leads(self) -> bool:
        """Whether there is a leading term for certain, which is most of the size at the largest width."""
        return self.leading > ERRORS * self.error and self.share > 0.5


def two_powers(
    widths: Sequence[int], sizes: Sequence[float], spread: float, power: float, gap: float = 0.5
) -> TwoPowers:
    """The fit of a n^power + b n^(power − gap) to sizes whose logarithms have the standard error `spread`."""
    n, y = numpy.asarray(widths, dtype=float), numpy.asarray(sizes, dtype=float)
    # errors of logarithms are relative ones; without scatter widths would be fitted exactly, and nothing judged
    weights = 1 / (numpy.maximum(spread, 1e-3) * y)
    columns = numpy.stack([n**power, n ** (power - gap)], axis=1) * weights[:, None]
    scales = numpy.linalg.norm(columns, axis=0)
    inverse = numpy.linalg.pinv(columns / scales)
    a, b = (inverse @ (y * weights)) / scales
    residual = y * weights - columns @ numpy.array([a, b])
    # the distance from the fit, where it says more than the scatter
    worse = max(1.0, float((residual**2).sum()) / max(len(n) - 2, 1))
    # of networks that have run away one width may outweigh all others, which tells no two terms apart
    told = numpy.linalg.matrix_rank(columns / scales) == 2
    error = math.sqrt(float((inverse[0] ** 2).sum()) * worse) / float(scales[0]) if told else math.inf
    return TwoPowers(float(a), float(b), error, float(a * n[-1] ** power / y[-1]))
