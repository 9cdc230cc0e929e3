"""Whether an update function is one that the limit theorems speak of, judged by its values.

They ask for a pseudo-Lipschitz function: |Q(g) − Q(g′)| ≤ C |g − g′| (1 + |g|^k + |g′|^k).  Q_0 is looked at near 0,
where functions of users fail it most often, and at gradients up to 10^4; what it does between is not seen.
"""

from __future__ import annotations

from itertools import product

import sympy
from sympy import Expr, Symbol

#: digits of values, more than those that differences near 0 lose
_DIGITS = 120
#: gradients near 0, and large ones, each with both signs
_NEAR, _FAR = (sympy.Rational(10) ** -20, sympy.Rational(10) ** -40), (1, 10**2, 10**3, 10**4)
#: no power of a polynomial is as large, and no bound in a root as small
_STEEPEST, _MUCH = 20, 1000


def value_at(first: Expr, g: Symbol, at: Expr) -> Expr | None:
    """Q_0 at a gradient: a real number, NaN for what is none, None where SymPy does not tell."""
    try:
        found = sympy.N(first.subs(g, at), _DIGITS)
    except ZeroDivisionError:  # a denominator that is zero to so many digits
        return None
    if found.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        return sympy.nan
    real, imaginary = found.as_real_imag()
    if not (real.is_comparable and imaginary.is_comparable):
        return None
    return real if abs(imaginary) <= sympy.Float(10, _DIGITS) ** (-_DIGITS // 2) * abs(real) else sympy.nan


def not_real_at(first: Expr, g: Symbol) -> Expr | None:
    """A gradient at which Q_0 is no real number, None if none is found."""
    points = [sign * sympy.Rational(5, 7) * size for size, sign in product((*_FAR, *_NEAR), (1, -1))]
    return next((p for p in points if value_at(first, g, p) is sympy.nan), None)


def has_pole(first: Expr, g: Symbol) -> bool:
    """Whether Q_0 is not bounded, like a power of 1/g, as g goes to 0."""
    return any(_grows(*(value_at(first, g, sign * size) for size in _NEAR)) for sign in (1, -1))


def lost_by(first: Expr, g: Symbol) -> str | None:
    """Why Q_0 is not pseudo-Lipschitz, or None if nothing speaks against it."""
    if has_pole(first, g):
        return "the update is not bounded where gradients vanish"
    if any(_grows(*(_slope(first, g, a * size, b * size) for size in _NEAR)) for a, b in ((1, -1), (1, 2), (-1, -2))):
        return "the update jumps, or has no bounded slope, where gradients vanish"
    if any(_is_steep(*(value_at(first, g, sign * size) for size in _FAR[-2:])) for sign in (1, -1)):
        return "the update grows faster than any polynomial"
    return None


def _slope(first: Expr, g: Symbol, a: Expr, b: Expr) -> Expr | None:
    values = value_at(first, g, a), value_at(first, g, b)
    return None if values[0] is None or values[1] is None else (values[0] - values[1]) / (a - b)


def _grows(far: Expr | None, near: Expr | None) -> bool:
    return far is not None and near is not None and bool(abs(near) > _MUCH * abs(far) + 1)


def _is_steep(near: Expr | None, far: Expr | None) -> bool:
    return near is not None and far is not None and bool(abs(far) > 10**_STEEPEST * (abs(near) + 1))
