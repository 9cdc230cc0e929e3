"""A number with its error and how it was found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy
import scipy  # loads its parts on first use: intervals alone need statistics

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: above 0, of doubles
SMALLEST = math.ulp(0.0)


@dataclass(frozen=True)
class Number:
    """`value` ± `error` by `method` ("exact", "quadrature", "particles").

    `error` is the difference of two resolutions (quadrature), one standard error from replicates with
    `degrees` degrees of freedom (particles), or the rounding of doubles (exact).  For a scalar that
    stays random in the limit `value` is its mean and `variance` ± `variance_error` its variance; for a
    deterministic limit `variance` is zero.

    >>> x = Number(0.5, 1e-16, "exact")
    >>> float(x), str(x)
    (0.5, '0.5 (exact)')
    >>> low, high = Number(0.5, 0.01, "particles", degrees=7).interval()
    >>> round((high - 0.5) / 0.01, 4)  # Student's t with 7 degrees of freedom
    2.3646
    >>> str(Number(0.0, 5e-324, "exact"))  # e^(−800) is no zero, and has no double
    '0 ± 4.9e-324 (exact)'
    """

    value: float
    error: float
    method: str
    variance: float = 0.0
    variance_error: float = 0.0
    degrees: int = 0

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        spread = f", variance {self.variance:.10g}" if self.variance else ""
        doubt = f" {self.doubt}" if self.doubt else ""
        return f"{self.value:.10g}{doubt}{spread} ({self.method})"

    @property
    def doubt(self) -> str:
        """The error as it is told: that of exact numbers only where these are too small for doubles."""
        return "" if self.method == "exact" and self.error != SMALLEST else f"± {self.error:.1e}"

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of the given level: Student's t for particles, value ± error otherwise."""
        half = float(scipy.special.stdtrit(self.degrees, (1 + level) / 2)) * self.error if self.degrees else self.error
        return self.value - half, self.value + half


def standard_error(values: Array) -> Array:
    """Of the mean over the first axis, from the spread of independent values."""
    return numpy.asarray(values.std(axis=0, ddof=1) / math.sqrt(len(values)))


def all_finite(numbers: Mapping[str, Number]) -> dict[str, Number]:
    """The numbers as they are; EvaluationError that names the first one which is beyond double precision.

    >>> all_finite({"return": Number(1.0, math.inf, "particles")})
    Traceback (most recent call last):
    tplimits.errors.EvaluationError: `return`: its error is inf: bring it nearer to 1.
    """
    for label, number in numbers.items():
        for what in ("value", "error", "variance", "variance_error"):
            if not math.isfinite(found := getattr(number, what)):
                raise EvaluationError(f"`{label}`: its {what.replace('_', ' ')} is {found}: bring it nearer to 1.")
    return dict(numbers)
