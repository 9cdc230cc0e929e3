"""Piecewise linear functions in means: their slopes on the two half-lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.leaves import Moment


def slopes(moment: Moment) -> tuple[float, float] | None:
    """(f₊, f₋) of a moment E φ(z)φ(z′) with φ(z) = f₊ z₊ + f₋ (−z)₊."""
    if len(moment.variables) != 2 or moment.values or not _piecewise_linear(moment.integrand):
        return None
    z, w = moment.variables
    values = {}
    for a in (-2, -1, 1, 2):
        for b in (-2, -1, 1, 2):
            value = moment.integrand.xreplace({z: sympy.Integer(a), w: sympy.Integer(b)})
            if not value.is_number:
                return None
            values[a, b] = float(value)
    plus, minus = values[1, 1], values[-1, -1]
    if plus < 0 or minus < 0:
        return None
    f, g = plus**0.5, minus**0.5
    g = g if values[1, -1] >= 0 else -g
    expected = {(a, b): (f * a if a > 0 else -g * a) * (f * b if b > 0 else -g * b) for a, b in values}
    return (f, g) if all(abs(values[k] - expected[k]) < 1e-12 * (1 + abs(expected[k])) for k in values) else None


def _piecewise_linear(integrand: Expr) -> bool:
    kinks = {"relu", "leaky_relu", "step", "maximum", "minimum", "where", "Abs", "sign"}
    return {type(f).__name__ for f in integrand.atoms(sympy.Function)} <= kinks and integrand != S.One
