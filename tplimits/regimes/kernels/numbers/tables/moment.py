"""Moments of a kernel derivation on arrays: constants and parameters as numbers, one function for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array, distinct_rows
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
#: parameters that are scales of variables are in (this, 1/this), or 0
_LEAST_SCALE = 1e-30
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
            "range of the arithmetic, or divides by zero, as norms of a zero input do, and mean slopes of jumps."
        )
    value, error = _at_values(integral, covariances, values, constants)
    return value, float(numpy.max(error, initial=0.0))


def _at_values(
    integral: Moment, covariances: Sequence[Array], values: Sequence[Array], constants: Mapping[Expr, float]
) -> tuple[Array, Array]:
    """(value, error bounds): parameters that are scales of variables at once, others value by value."""
    integral, covariances, values, factor = _scaled(integral, covariances, values)
    if factor is not None:
        value, error = _at_values(integral, covariances, values, constants)
        return value * factor, error * abs(factor)
    if not values:
        return _called(function_of(integral, constants), covariances)
    shape = numpy.broadcast_shapes(*(numpy.shape(a) for a in (*covariances, *values)))
    table = numpy.stack([numpy.broadcast_to(v, shape).ravel() for v in values], axis=1)
    distinct, place = distinct_rows(table)
    if len(distinct) > _MOST_VALUES:
        raise EvaluationError(
            f"E[{integral.integrand}] is needed for {len(distinct)} values of its parameters; the most is "
            f"{_MOST_VALUES}. Take fewer inputs at a time, or fewer draws."
        )
    flat = [numpy.broadcast_to(c, shape).ravel() for c in covariances]
    found, errors = (numpy.empty(flat[0].shape, numpy.result_type(*flat)) for _ in range(2))
    for number, row in enumerate(distinct):
        here = place == number
        function = function_of(integral, constants, tuple(map(float, row)))
        found[here], errors[here] = _called(function, [c[here] for c in flat])
    return found.reshape(shape), errors.reshape(shape)


def _scaled(
    integral: Moment, covariances: Sequence[Array], values: Sequence[Array]
) -> tuple[Moment, Sequence[Array], Sequence[Array], Array | None]:
    """The moment without a parameter that is a scale of variables: E F(p z; C) = p^k E G(z; p² C), and p^k.

    One function at many covariances, for one function of the covariances at each value.  None: there is no such
    parameter.
    """
    for number, name in enumerate(integral.parameters):
        found, p = _without_scale(integral.integrand, integral.variables, name), numpy.asarray(values[number])
        sizes = abs(p[p != 0])
        # products of covariances stay in range; at p = 0 a negative power has no value, where the mean has one
        if (
            found is None
            or (found.power < 0 and sizes.size < p.size)
            or not (sizes.min(initial=1.0) > _LEAST_SCALE and sizes.max(initial=1.0) < 1 / _LEAST_SCALE)
        ):
            continue
        by, size = found.multiplied, len(integral.variables)
        counts = [by[i] + by[j] for i in range(size) for j in range(i, size)]
        parameters, symbols, left = (
            [x for k, x in enumerate(many) if k != number] for many in (integral.parameters, integral.values, values)
        )
        moment = integral.func(found.integrand, integral.variables, integral.covariances, parameters, symbols)
        scaled = [c * p**k if k else c for c, k in zip(covariances, counts, strict=True)]
        return moment, scaled, left, p**found.power
    return integral, covariances, values, None


class _Scaled(NamedTuple):
    """F(z; p) = p^power G(p z), where p multiplies the variables that are marked by 1."""

    integrand: Expr
    power: int
    multiplied: tuple[int, ...]


@lru_cache(maxsize=256)
def _without_scale(integrand: Expr, variables: tuple[Symbol, ...], name: Symbol) -> _Scaled | None:
    """The function without a parameter that is but a scale of variables.

    >>> p, x, y = sympy.symbols("p x y", real=True)
    >>> tuple(_without_scale(p * sympy.sin(p * x) * y, (x, y), p)), _without_scale(sympy.sin(p + x), (x,), p)
    ((y*sin(x), 1, (1, 0)), None)
    """
    for by in itertools.product((0, 1), repeat=len(variables)):
        whole = integrand.xreplace({x: x / name for x, k in zip(variables, by, strict=True) if k})
        apart, scale = whole.as_independent(name, as_Add=False)
        base, power = (name, sympy.S.Zero) if scale == 1 else scale.as_base_exp()
        if base == name and power.is_Integer:
            return _Scaled(apart, int(power), by)
    return None


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


def _called(function: MomentFunction, covariances: Sequence[Array]) -> tuple[Array, Array]:
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
    return value, error
