"""Poles at linear forms in products: which are one, and which of them a difference beside them takes away.

    F(ℓ, z) = O(ℓᵏ) for every z   ⇒   F/ℓᵏ = ∫₀¹ c (1 − t)^(k−1) ∂ᵏF(tℓ, z) dt

So (sin x − sin y)/(x − y) has the tail of cos x, whatever it is divided by there: F is entire, or Lipschitz with k = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.entire import is_entire
from tplimits.law.hypotheses.signs import variables_in, without_names
from tplimits.law.hypotheses.zero import vanishes
from tplimits.program.nodes import functions
from tplimits.program.parts import holds

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: Lipschitz, with a slope almost everywhere
_LIPSCHITZ = (sympy.Abs, functions.relu, functions.leaky_relu)
#: stands for a form
_FORM = sympy.Dummy("t", real=True)
#: so many derivatives along a form are looked at
_MOST = 4


@dataclass(frozen=True)
class Pole:
    """A negative power, and the zeros of its base where they are those of one linear form ℓ."""

    written: sympy.Pow
    zeros: Any

    @property
    def form(self) -> Expr:
        """ℓ; the power itself where it is not of this kind."""
        return self.zeros.forms[0][0] if self.zeros else self.written

    @property
    def exponent(self) -> Expr:
        """The power of |ℓ| that it is a bounded multiple of."""
        return self.zeros.forms[0][1] * self.written.exp if self.zeros else S.Zero


def merged(poles: Sequence[Pole]) -> list[tuple[Expr, Expr, list[sympy.Pow]]]:
    """(base, power, what it is made of): poles at one form as one pole, for 1/(x tanh x) is as x^(−2)."""
    together: dict[Expr, list[Pole]] = {}
    for pole in poles:
        together.setdefault(pole.form, []).append(pole)
    return [
        (g[0].written.base, g[0].written.exp, [g[0].written])
        if len(g) == 1
        else (sympy.Abs(form), sympy.Add(*(p.exponent for p in g)), [p.written for p in g])
        for form, g in together.items()
    ]


def divided(pole: Pole, beside: Sequence[Expr], gaussians: Randomness) -> tuple[Expr, Expr, Expr] | None:
    """(factor, slope, power of |ℓ| that is left) where a factor beside a pole at ℓ is a multiple of ℓ; or None."""
    for f in beside:
        base, power = f.as_base_exp()
        if power.is_Integer and power.is_positive and base.is_Add:
            slope = _slope(base, pole.form, gaussians)
            if slope is not None:
                return f, slope[1] ** power, sympy.Abs(pole.form) ** (pole.exponent + slope[0] * power)
    return None


def _slope(factor: Expr, form: Expr, gaussians: Randomness) -> tuple[int, Expr] | None:
    """(k, ∂ᵏF along the form) of a factor F that is O(ℓᵏ) for all values of the other variables."""
    written = without_names(factor, gaussians)
    # functions with derivatives that grow no faster than polynomials or they themselves
    if not is_entire(written, *written.free_symbols, beside=_LIPSCHITZ):
        return None
    variable = variables_in(form, gaussians)[0]
    slope = form.diff(variable)
    along = written.xreplace({variable: (_FORM - (form - slope * variable)) / slope})
    # what has kinks has one derivative alone
    most = 1 if holds(written, *_LIPSCHITZ) else _MOST
    k = 0
    while k < most and vanishes(along.xreplace({_FORM: S.Zero})):
        k, along = k + 1, along.diff(_FORM)
    return (k, along.xreplace({_FORM: form})) if k else None
