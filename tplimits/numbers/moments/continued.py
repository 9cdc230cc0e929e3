"""Functions of one variable with a removable pole at zero, continued by their power series near it.

    P(z) = Σ_j c_j z^j   for |z| ≤ r,   P(z) as it is written elsewhere

(1 − cos z)/z² divides rounding errors by z² near its pole, and its derivative by z³: quadrature that has nodes there
finds 1e60.  The coefficients are Cauchy's integrals on a circle in many digits, which also tell whether P is analytic
inside of it, and whether the pole is removable: those of negative order vanish then.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import mpmath
import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, Symbol

from tplimits.program.nodes import functions
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS, evaluate
from tplimits.program.parts import remembered

Array = NDArray[numpy.float64]
#: points of a circle, coefficients that are kept, digits
_POINTS, _KEPT, _DIGITS = 64, 24, 50
#: radii that are tried, the share of one up to which the series is used, and what counts as zero
_RADII, _SHARE, _ZERO = (1.0, 0.5, 0.25, 0.125, 0.03125), 0.25, 1e-22
#: heads by what mpmath has
_WRITTEN: dict[Any, Any] = {
    functions.sigmoid: lambda x: 1 / (1 + sympy.exp(-x)),
    functions.softplus: lambda x: sympy.log(1 + sympy.exp(x)),
    functions.gelu: lambda x: x * (1 + sympy.erf(x / sympy.sqrt(2))) / 2,
    functions.stop_gradient: lambda x: x,
}
_ANALYTIC = (
    *(sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tan, sympy.atan, sympy.sinh, sympy.cosh),
    *(sympy.tanh, sympy.sech, sympy.asinh, sympy.erf, sympy.erfc),
)
_z = Symbol("z", real=True)


class series(sympy.Function):
    """P(z) by its number in the table of continued functions."""

    nargs = 2
    table: ClassVar[dict[int, _Series]] = {}
    numbers: ClassVar[Iterator[int]] = itertools.count()


@dataclass(frozen=True)
class _Series:
    """A function of `_z` with its power series within a radius."""

    function: Expr
    coefficients: tuple[float, ...]
    radius: float

    def __call__(self, z: Any) -> Any:
        near = numpy.abs(z) <= self.radius
        far = evaluate(self.function, {_z: numpy.where(near, self.radius, z)})
        return numpy.where(near, numpy.polynomial.polynomial.polyval(z, self.coefficients), far)


ARRAY_FUNCTIONS[series] = lambda z, number: series.table[int(number)](z)


def continued(function: Expr, variables: Sequence[Symbol]) -> Expr:
    """A function with its removable poles at z = 0 continued, for each of some variables by itself.

    >>> found = continued(sympy.tanh(_z * sympy.sin(_z) / _z**2), [_z])
    >>> bool(abs(evaluate(found, {_z: numpy.array(1e-30)}) - numpy.tanh(1.0)) < 1e-15)
    True
    >>> continued(sympy.exp(_z) / _z, [_z]) == sympy.exp(_z) / _z
    True
    """
    for z in variables:
        if _has_pole(function, z):
            function = _put(function, z)
    return function


def _has_pole(function: Expr, z: Symbol) -> bool:
    return any(p.exp.is_negative and p.base.as_independent(z, as_Add=False)[1] == z for p in function.atoms(sympy.Pow))


def _put(function: Expr, z: Symbol) -> Expr:
    if not function.args or not _has_pole(function, z):
        return function
    if isinstance(function, (sympy.Add, sympy.Mul)):
        beside: dict[Expr, list[Expr]] = {}
        for addend in sympy.Add.make_args(function):
            factor, alone = _alone(addend, z)
            beside.setdefault(factor, []).append(alone)
        parts = [(factor, sympy.Add(*parts)) for factor, parts in beside.items()]
        found = [(factor, _series(alone.xreplace({z: _z})) if _has_pole(alone, z) else None) for factor, alone in parts]
        if any(number is not None for _, number in found):
            pairs = zip(parts, found, strict=True)
            return sympy.Add(*(f * (a if k is None else series(z, k)) for (f, a), (_, k) in pairs))
    return function.func(*(_put(a, z) for a in function.args))


def _alone(product: Expr, z: Symbol) -> tuple[Expr, Expr]:
    """A product as what holds other variables or numbers, and what holds z alone."""
    mine = [f for f in sympy.Mul.make_args(product) if f.free_symbols == {z}]
    number, rest = sympy.Mul(*(f for f in sympy.Mul.make_args(product) if f not in mine)).as_coeff_Mul()
    return rest, number * sympy.Mul(*mine)


@remembered(1 << 10)
def _series(function: Expr) -> int | None:
    """The number of a function of `_z` in the table; None where it is not analytic at 0 once its pole is removed."""
    for head, written in _WRITTEN.items():
        function = function.replace(head, written)
    if not all(isinstance(f, _ANALYTIC) for f in function.atoms(sympy.Function)):
        return None
    value = sympy.lambdify(_z, function, "mpmath")
    for radius in _RADII:
        coefficients = _coefficients(value, radius)
        if coefficients is not None:
            number = next(series.numbers)
            series.table[number] = _Series(function, coefficients, _SHARE * radius)
            return number
    return None


def _coefficients(value: Any, radius: float) -> tuple[float, ...] | None:
    """c_j of a function that is analytic within the radius but for a removable pole at 0; None for others."""
    with mpmath.workdps(_DIGITS):
        try:
            circle = [mpmath.expjpi(mpmath.mpf(2 * k) / _POINTS) for k in range(_POINTS)]
            values = [mpmath.mpc(value(radius * w)) for w in circle]
        except (ValueError, TypeError, ZeroDivisionError, OverflowError):
            return None

        def scaled(j: int) -> mpmath.mpc:
            """c_j radius^j; those of negative order stand at the end."""
            return mpmath.fsum(v * circle[-j * k % _POINTS] for k, v in enumerate(values)) / _POINTS

        size = max(map(abs, values))
        if not mpmath.isfinite(size) or any(abs(scaled(j)) > _ZERO * size for j in range(-1, -_POINTS // 2, -1)):
            return None
        return tuple(float(scaled(j).real / mpmath.mpf(radius) ** j) for j in range(_KEPT))
