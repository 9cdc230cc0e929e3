"""Means of functions of several variables that hold exponentials of quadratic forms: these are absorbed into the law.

    E e^(−½ gᵀAg) F(g) = det(I + CA)^(−1/2) E F(g'),   g' ~ N(0, (I + CA)⁻¹ C)

where I + C^½AC^½ is positive definite; elsewhere the mean is infinite (`law.closed_forms.tilting`, on arrays).  What is
left, F, reads fewer variables: of e^(xy) none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import EvaluationError
from tplimits.numbers.moments.determinants import full
from tplimits.program.nodes.log_sums import without_overflow
from tplimits.program.parts import addends, found

if TYPE_CHECKING:
    from tplimits.numbers.moments.function import MomentFunction
    from tplimits.program.nodes.evaluate import Array

#: of the absolute value of a term, times how near its mean is to an infinite one
_ROUNDING = 4e-15


@dataclass(frozen=True)
class Tilt:
    """A term e^(−½ gᵀAg) F(g): A row by row, the places of the variables of F, and the mean of F."""

    form: tuple[tuple[float, ...], ...]
    places: tuple[int, ...]
    rest: MomentFunction


def tilts(
    function: Expr, variables: Sequence[Symbol], moment: Callable[[Expr, tuple[Symbol, ...]], MomentFunction]
) -> tuple[Tilt, ...]:
    """The function as a sum of such terms; () where no exponential of a quadratic form is a factor of one.

    >>> from tplimits.numbers.moments.function import moment
    >>> a, b = sympy.symbols("a b", real=True)
    >>> [(t.form, t.rest.integrand) for t in tilts(b * sympy.exp(a * b), (a, b), moment)]
    [(((0.0, -1.0), (-1.0, 0.0)), b)]
    """
    if not any(_quadratic(e.args[0], variables) is not None for e in found(function, sympy.exp)):
        return ()
    rests: dict[tuple[tuple[float, ...], ...], Expr] = {}
    # an exponential that is divided by one as large is no part of the law: e^(xy)/(1 + e^(xy)) is at most 1
    for term in addends(without_overflow(function)):
        form, left = sympy.zeros(len(variables)), []
        for factor in sympy.Mul.make_args(term):
            hessian = _quadratic(factor.args[0], variables) if isinstance(factor, sympy.exp) else None
            if hessian is not None:
                form -= hessian
                square = (sympy.Matrix([variables]) * hessian * sympy.Matrix(variables))[0] / 2
                factor = sympy.exp(sympy.expand(factor.args[0] - square))
            left.append(factor)
        rows = tuple(tuple(map(float, form.row(i))) for i in range(len(variables)))
        rests[rows] = rests.get(rows, S.Zero) + sympy.Mul(*left)
    # inside of another function it stays: the rest is asked again, and would be the same function for ever
    if not any(map(any, itertools.chain.from_iterable(rests))):
        return ()
    return tuple(_tilt(form, rest, variables, moment) for form, rest in rests.items())


def _tilt(form: Any, rest: Expr, variables: Sequence[Symbol], moment: Callable[..., MomentFunction]) -> Tilt:
    places = tuple(i for i, v in enumerate(variables) if v in rest.free_symbols) or (0,)
    return Tilt(form, places, moment(rest, tuple(variables[i] for i in places)))


def _quadratic(exponent: Expr, variables: Sequence[Symbol]) -> sympy.Matrix | None:
    """The Hessian of an exponent that is a quadratic polynomial; None for others, and for linear ones."""
    if not exponent.is_polynomial(*variables):
        return None
    poly = sympy.Poly(exponent, *variables)
    if poly.total_degree() != 2 or not all(c.is_number for c in poly.coeffs()):
        return None
    return sympy.hessian(exponent, list(variables))


def mean_of_tilts(known: Sequence[Tilt], covariances: Sequence[Array], size: int) -> tuple[Array, Array]:
    """(value, error) at arrays (N,) of the upper triangle of the covariance of `size` variables."""
    grams = full(covariances, size)
    value, error = numpy.zeros(len(grams)), numpy.zeros(len(grams))
    for tilt in known:
        weight, wider, near = _tilted(numpy.array(tilt.form), grams, tilt.rest.integrand)
        upper = [wider[:, i, j] for i, j in itertools.combinations_with_replacement(tilt.places, 2)]
        one, doubt = tilt.rest(*upper)
        value, error = value + weight * one, error + weight * (doubt + _ROUNDING * near * abs(one))
    return value, error


def _tilted(form: Array, grams: Array, rest: Expr) -> tuple[Array, Array, Array]:
    """det(I + CA)^(−1/2), the tilted covariances, and how the rounding of the determinant counts."""
    product = grams @ form
    least = 1 + numpy.linalg.eigvals(product).real.min(axis=-1, initial=0.0)
    if not (least > 1e-12).all():
        raise EvaluationError(
            f"the mean of an exponential of a quadratic form times `{rest}` is infinite at some of the covariances: it "
            "grows faster than a Gaussian density decays. Narrow its argument."
        )
    factor = numpy.eye(len(form)) + product
    wider = numpy.linalg.solve(factor, grams)
    return numpy.linalg.det(factor) ** -0.5, (wider + wider.transpose(0, 2, 1)) / 2, 1 + 1 / least
