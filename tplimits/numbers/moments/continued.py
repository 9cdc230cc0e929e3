"""Functions of one variable with a removable pole at zero, continued by their power series near it.

    P(z) = Σ_j c_j z^j   for |z| ≤ r,   P(z) as it is written elsewhere

(1 − cos z)/z² divides rounding errors by z² near its pole, and its derivative by z³: quadrature that has nodes there
finds 1e60.  The coefficients are Cauchy's integrals on a circle in many digits, which also tell whether P is analytic
inside of it, and whether the pole is removable: those of negative order vanish then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes import functions
from tplimits.program.nodes.series import near
from tplimits.program.parts import remembered

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


def continued(function: Expr, variables: Sequence[Symbol]) -> Expr:
    """A function with its removable poles at z = 0 continued, for each of some variables by itself.

    >>> import numpy
    >>> from tplimits.program.nodes.evaluate import evaluate
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
    if isinstance(function, near) or not function.args or not _has_pole(function, z):
        return function
    if isinstance(function, (sympy.Add, sympy.Mul)):
        beside: dict[Expr, list[Expr]] = {}
        for addend in sympy.Add.make_args(function):
            factor, alone = _alone(addend, z)
            beside.setdefault(factor, []).append(alone)
        parts = [(factor, sympy.Add(*parts)) for factor, parts in beside.items()]
        found = [_series(alone.xreplace({z: _z})) if _has_pole(alone, z) else None for _, alone in parts]
        if any(series is not None for series in found):
            pairs = zip(parts, found, strict=True)
            return sympy.Add(*(f * (a if series is None else near(z, a, *series)) for (f, a), series in pairs))
    return function.func(*(_put(a, z) for a in function.args))


def _alone(product: Expr, z: Symbol) -> tuple[Expr, Expr]:
    """A product as what holds other variables or numbers, and what holds z alone."""
    mine = [f for f in sympy.Mul.make_args(product) if f.free_symbols == {z}]
    number, rest = sympy.Mul(*(f for f in sympy.Mul.make_args(product) if f not in mine)).as_coeff_Mul()
    return rest, number * sympy.Mul(*mine)


@remembered(1 << 10)
def _series(function: Expr) -> tuple[Expr, ...] | None:
    """(r, c₀, c₁, …) of a function of `_z`; None where it is not analytic at 0 once its pole is removed."""
    for head, written in _WRITTEN.items():
        function = function.replace(head, written)
    if not all(isinstance(f, _ANALYTIC) for f in function.atoms(sympy.Function)):
        return None
    value = sympy.lambdify(_z, function, "mpmath")
    for radius in _RADII:
        coefficients = _coefficients(value, radius)
        if coefficients is not None:
            return sympy.Float(_SHARE * radius), *map(sympy.Float, coefficients)
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
