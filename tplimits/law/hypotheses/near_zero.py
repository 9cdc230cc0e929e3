"""Functions that cancel where a pole beside them is taken away, by their Taylor series there.

(exp x − 1 − x)/x² tends to ½ as x → 0, but in doubles the numerator has an error of 1e-16 however small x is, which
the pole multiplies by x^(−2): quadrature that looks closely at the pole would add rounding alone.  So a factor that is
F(t) = O(t^k) beside a pole at t = 0 is read off its series for |t| < δ, where the terms that are left out are below the
rounding of the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mpmath
import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.taylor import order_at_zero
from tplimits.law.hypotheses.vanishing import FORM, functions_of_one, vanishing
from tplimits.program.nodes import functions
from tplimits.program.nodes.laws import truncated
from tplimits.program.nodes.series import near
from tplimits.program.parts import found, holds, remembered

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: terms behind the first, digits of their coefficients; terms that say how large those left out are
_TERMS, _DIGITS, _LAST = 30, 60, 8
#: a first term left out, beside the first that is kept; the largest δ
_ROUNDING, _LARGEST = 1e-17, 1.0
#: what has no elementary form in the language
_HEADS = {"softplus": lambda x: mpmath.log(1 + mpmath.exp(x))}


def steadied(expr: Expr, gaussians: Randomness) -> Expr:
    """The same function with every sum that vanishes at a pole beside it read off its Taylor series there."""
    if not (holds(expr, sympy.Pow) and holds(expr, sympy.Add)):
        return expr
    swap: dict[Expr, Expr] = {}
    for product in found(expr, sympy.Mul):
        kept = list(product.args)
        for pole in (f for f in product.args if f.is_Pow and f.exp.is_negative and gaussians.of(f.base)):
            zeros = vanishing(pole.base, gaussians)
            if zeros is not None:
                kept = [f if f is pole else _near(f, [z for z, _ in zeros.forms], gaussians) for f in kept]
        if kept != list(product.args):
            swap[product] = sympy.Mul(*kept)
    return expr.xreplace(swap) if swap else expr


def _near(factor: Expr, zeros: list[Expr], gaussians: Randomness) -> Expr:
    """A factor that is a sum, or a function of one, with its series at the zero of a form."""
    base, power = factor.as_base_exp()
    if factor.is_Pow and power.is_Integer and power.is_positive:
        return _near(base, zeros, gaussians) ** power
    if isinstance(factor, near) or not holds(factor, sympy.Add) or factor in zeros:
        return factor
    for inner, alone in functions_of_one(factor, zeros, gaussians):
        series = _series(alone, FORM)
        if series is not None and not _is_form(alone):
            return near(inner, factor, *series)
    return factor


def _is_form(alone: Expr) -> bool:
    """Whether a function is a multiple of its variable, which doubles keep all digits of."""
    return not (alone / FORM).has(FORM)


@remembered(1 << 10)
def _series(function: Expr, variable: Symbol) -> tuple[Expr, ...] | None:
    """(δ, c₀, c₁, …) of a function that vanishes at zero; None where it does not, or is not seen to be analytic."""
    first = order_at_zero(function, variable)
    if not first or holds(function, truncated):
        return None
    numeric = sympy.lambdify(variable, functions.elementary(function), [_HEADS, "mpmath"])
    with mpmath.workdps(_DIGITS):
        found = mpmath.taylor(numeric, 0, first + _TERMS)
        size = abs(found[first])
        last = [
            (_ROUNDING * size / abs(c)) ** (mpmath.mpf(1) / (n - first))
            for n, c in enumerate(found)
            if n > first + _TERMS - _LAST and c != 0
        ]
        radius = min([mpmath.mpf(_LARGEST), *last])
        kept = [S.Zero] * first + [sympy.Float(c, 20) for c in found[first:]]
    return (sympy.Float(radius, 20), *kept)
