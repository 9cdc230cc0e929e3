"""Moments of a kernel derivation on arrays: constants and parameters as numbers, one function for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.moments.function import MomentFunction, moment, with_constants
from tplimits.program.nodes.evaluate import mean_of_numbers

if TYPE_CHECKING:
    from tplimits.program.nodes.entries import GaussMean
    from tplimits.regimes.kernels.derivation.leaves import Moment

#: below this share of c11·c22, in units of rounding, a determinant is rounding: the pair coincides, or is opposite.  In
#: extended precision, for pairs that looked singular in doubles, the bound is tight: a larger one costs digits
_COINCIDENT, _COINCIDENT_EXTENDED = 90, 16
#: variances below this are refused
SMALLEST = 1e-140
#: so many different values of parameters are treated one by one
_MOST_VALUES = 4096


class OutOfRangeError(EvaluationError):
    """A covariance has left the range of the arithmetic, or divides by zero."""


def refuse_underflow(variances: Array) -> None:
    """Refuse variances whose products leave the range of double precision: a kernel would be zero without a word."""
    size = numpy.abs(variances[(variances != 0) & numpy.isfinite(variances)])  # what is infinite is told elsewhere
    if size.size and (size.min() < SMALLEST or size.max() > 1 / SMALLEST):
        found = size.min() if size.min() < SMALLEST else size.max()
        raise EvaluationError(
            f"a kernel of an input with itself, or a factor of it, is {found:.1e}: products of two such numbers leave "
            f"the range of doubles; {SMALLEST:.0e} to {1 / SMALLEST:.0e} is in range. Scale the inputs or weights."
        )


def function_of(integral: Moment, constants: Mapping[Expr, float], values: Sequence[float] = ()) -> MomentFunction:
    """The moment as a function of its covariances."""
    known: dict[Symbol, float] = dict(zip(integral.parameters, values, strict=True))
    known |= {s: constants[s] for s in integral.integrand.free_symbols if s in constants}
    return moment(integral.integrand, integral.variables, with_constants(known))


def evaluated_moment(
    integral: Moment, covariances: Sequence[Array], values: Sequence[Array], constants: Mapping[Expr, float]
) -> tuple[Array, float]:
    """(value, largest error bound) at arrays of covariances and of parameters."""
    if not all(numpy.isfinite(a).all() for a in (*covariances, *values)):
        raise OutOfRangeError(
            f"a covariance in E[{integral.integrand}] is not a finite number: a kernel of an earlier layer leaves the "
            "range of the arithmetic, or divides by zero (a layer norm of a zero input?)."
        )
    if not values:
        return _called(function_of(integral, constants), covariances)
    shape = numpy.broadcast_shapes(*(numpy.shape(a) for a in (*covariances, *values)))
    table = numpy.stack([numpy.broadcast_to(v, shape).ravel() for v in values], axis=1)
    distinct, place = numpy.unique(table, axis=0, return_inverse=True)
    if len(distinct) > _MOST_VALUES:
        raise EvaluationError(
            f"E[{integral.integrand}] is needed for {len(distinct)} values of its parameters; the most is "
            f"{_MOST_VALUES}. Take fewer inputs at a time, or fewer draws."
        )
    flat = [numpy.broadcast_to(c, shape).ravel() for c in covariances]
    found, error = numpy.empty(flat[0].shape, numpy.result_type(*flat)), 0.0
    for number, row in enumerate(distinct):
        here = place.ravel() == number
        found[here], one = _called(function_of(integral, constants, tuple(map(float, row))), [c[here] for c in flat])
        error = max(error, one)
    return found.reshape(shape), error


def error_of_constants(means: Iterable[GaussMean], constants: Mapping[Expr, float]) -> float:
    """The largest error of a mean that no input moves; one inside of another counts where it is a number itself."""
    alone = (mean for mean in means if all(s in constants for s in mean.free_symbols))
    return max((mean_of_numbers(mean, constants).error for mean in alone), default=0.0)


def _refuse_cancelled(variances: Array, function: MomentFunction) -> None:
    """Refuse variances that rounding has left of sums that cancel, which it makes negative as often as not."""
    least = float(numpy.min(variances, initial=0.0))
    if least < 0:
        raise EvaluationError(
            f"the variance of a vector in E[{function.integrand}] is {least:.1e}, what rounding leaves of a sum that "
            "cancels: the vector is a difference of equal ones, rounding in networks as well. Leave it out."
        )


def _called(function: MomentFunction, covariances: Sequence[Array]) -> tuple[Array, float]:
    if len(covariances) < 6:
        for variances in covariances[::2]:
            _refuse_cancelled(variances, function)
    if len(covariances) == 3:
        c11, c12, c22 = covariances
        if c11.dtype != numpy.longdouble:
            refuse_underflow(c11)
            refuse_underflow(c22)
        size = c11 * c22
        bound = numpy.sqrt(size)
        c12 = numpy.clip(c12, -bound, bound)  # by rounding a covariance passes what its variances allow
        det = numpy.maximum(size - c12 * c12, 0.0)
        least = _COINCIDENT_EXTENDED if det.dtype == numpy.longdouble else _COINCIDENT
        rounding = least * numpy.finfo(det.dtype).eps
        value, error = function(c11, c12, c22, det=numpy.where(det < rounding * size, 0.0, det))
    else:
        refuse_underflow(covariances[0])
        value, error = function(*covariances)
    return value, float(numpy.max(error, initial=0.0))
