"""Poles at linear forms in products: which are one, and which of them a difference beside them takes away.

    F(ℓ, z) = O(ℓᵏ) for every z   ⇒   F/ℓᵏ = ∫₀¹ c (1 − t)^(k−1) ∂ᵏF(tℓ, z) dt

So (sin x − sin y)/(x − y) has the tail of cos x, whatever it is divided by there: F is entire, or Lipschitz with k = 1.
Poles that cancel between the terms of a sum, coth h − 1/h = (h − tanh h)/(h tanh h), are seen over one denominator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.signs import variables_in, without_names
from tplimits.law.hypotheses.taylor import order_at_zero
from tplimits.law.hypotheses.zero import vanishes
from tplimits.program.nodes.properties import BELOW, KINKED, is_entire
from tplimits.program.parts import found, holds, linked, put_for, remembered

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: stands for a form
_FORM = sympy.Dummy("t", real=True)
#: so many derivatives along a form are looked at
_MOST = 4
#: shares of a power that a first summand takes, a second one the rest
_SHARES = tuple(sympy.S(k) / 10 for k in (5, 8, 2, 9, 1))


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


def poles_of(factors: Iterable[Expr], varies: Callable[[Expr], bool]) -> list[Expr]:
    """The negative integer powers of what varies among some factors."""
    return [f for f in factors if f.is_Pow and f.exp.is_Integer and f.exp.is_negative and varies(f.base)]


def over_one_denominator(expr: Expr, varies: Callable[[Expr], bool]) -> Expr:
    """A sum of quotients over one denominator; sums that are factors of its terms are left as they are.

    >>> h = sympy.Symbol("h", real=True)
    >>> over_one_denominator(1 / h - sympy.tanh(h) / h**2, lambda base: True)
    (h - tanh(h))/h**2
    """
    if not expr.is_Add:
        return expr
    below: dict[Expr, int] = {}
    for term in expr.args:
        for pole in poles_of(sympy.Mul.make_args(term), varies):
            below[pole.base] = max(below.get(pole.base, 0), -int(pole.exp))
    whole = sympy.Mul(*(base**power for base, power in below.items()))
    above, poles = sympy.Add(*(term * whole for term in expr.args)), (base**-power for base, power in below.items())
    return sympy.Mul(above, *poles, evaluate=False)


def as_quotient(expr: Expr, varies: Callable[[Expr], bool], finite: Callable[[Expr], bool]) -> Expr:
    """A sum with the terms that are not `finite` over one denominator, those with poles in other variables apart.

    In a product all terms of each factor are, for what is finite by itself is not beside a pole: (1 − tanh(h)/h)/h.
    """
    if expr.is_Mul:
        bases = (f.as_base_exp() for f in expr.args)
        return sympy.Mul(*(over_one_denominator(b, varies) ** e if e.is_Integer else b**e for b, e in bases))
    terms = {t: poles_of(sympy.Mul.make_args(t), varies) for t in expr.args} if expr.is_Add else {}
    singular = ((t, poles) for t, poles in terms.items() if poles and not finite(t))
    groups = linked((t, set().union(*(p.free_symbols for p in poles))) for t, poles in singular)
    several = [group for group, _ in groups if len(group) > 1]
    used = {t for group in several for t in group}
    wholes = [over_one_denominator(sympy.Add(*group), varies) for group in several]
    return sympy.Add(*(t for t in expr.args if t not in used), *wholes) if several else expr


def kept_together(
    terms: Iterable[Expr], sizes: Sequence[Symbol], varies: Callable[[Expr], bool], finite: Callable[[Expr], bool]
) -> list[Expr]:
    """The terms of a sum, those that are no functions by themselves over one denominator, for each power of n apart.

    What vanishes at a pole for every n does so in each power of a size, n or ε, whose coefficients are looked at alone.

    >>> h, n = sympy.Symbol("h", real=True), sympy.Symbol("n", positive=True)
    >>> kept_together([1 / h, -sympy.tanh(h) / h**2, h / n], [n], lambda base: True, lambda term: False)
    [(h - tanh(h))/h**2, h/n]
    """
    by_size: dict[Expr, list[Expr]] = {}
    for term in terms:
        by_size.setdefault(term.as_independent(*sizes, as_Add=False)[1], []).append(term)
    wholes = (as_quotient(sympy.Add(*group), varies, finite) for group in by_size.values())
    return [term for whole in wholes for term in sympy.Add.make_args(whole)]


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


def by_argument(poles: Sequence[sympy.Pow], others: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
    """(F(u), rest) with F(u) = O(uʲ) for a product u of what is divided by, and all else times uʲ.

    |F(u)|/|u|ʲ ≤ c (1 + |F(u)|): erf(a b)/(a b) and (1 − cos(a b))/(a b) have no poles, at a, at b or at both.
    """
    for f in others:
        head, power = f.as_base_exp()
        below = head.args[0] if isinstance(head, BELOW) and power.is_Integer else None
        at = {u: [pole for pole in poles if pole.base in u.args] for u in found(f, sympy.Mul) if u != f}
        # with one pole alone `order` sees it: the two together are a product that is no form
        orders = {u: power if u == below else _order_in(f, u) for u, its in at.items() if len(its) > 1}
        for u, order in sorted(((u, k) for u, k in orders.items() if k), key=lambda found: sympy.count_ops(found[0])):
            j = min(order, max(int(sympy.ceiling(-pole.exp)) for pole in at[u]))
            yield f, sympy.Mul(u**j, *poles, *(g for g in others if g is not f))


def shares_of_pole(terms: Sequence[Expr], power: Expr) -> Iterator[Expr]:
    """Of (Σ tᵢ)^(−p) ≤ t^(−pθ) · (Σ of the others)^(−p(1−θ)), for some 0 < θ < 1 (means of positive numbers)."""
    # of two terms either order is covered by the shares
    for term in terms if len(terms) > 2 else terms[:1]:
        rest = sympy.Add(*(t for t in terms if t is not term))
        for share in _SHARES:
            yield term ** (-power * share) * rest ** (-power * (1 - share))


@remembered(1 << 12)
def shared(total: Expr) -> tuple[Expr, ...]:
    """What the terms of a sum share, and the rest: shares of a pole ask of one sum with many exponents."""
    return sympy.Mul.make_args(sympy.factor_terms(total))


def _order_in(factor: Expr, argument: Expr) -> int | None:
    """k for F(u) = O(uᵏ) of the argument u alone; None for others."""
    if not found(factor, Symbol) <= found(argument, Symbol):
        return None
    alone = put_for(factor, argument, _FORM)
    return order_at_zero(alone, _FORM) if alone.free_symbols == {_FORM} else None


def _slope(factor: Expr, form: Expr, gaussians: Randomness) -> tuple[int, Expr] | None:
    """(k, ∂ᵏF along the form) of a factor F that is O(ℓᵏ) for all values of the other variables."""
    written = without_names(factor, gaussians)
    # functions with derivatives that grow no faster than polynomials or they themselves
    if not is_entire(written, *written.free_symbols, beside=KINKED):
        return None
    variable = variables_in(form, gaussians)[0]
    slope = form.diff(variable)
    along = written.xreplace({variable: (_FORM - (form - slope * variable)) / slope})
    # what has kinks has one derivative alone
    most = 1 if holds(written, *KINKED) else _MOST
    k = 0
    while k < most and vanishes(along.xreplace({_FORM: S.Zero})):
        k, along = k + 1, along.diff(_FORM)
    return (k, along.xreplace({_FORM: form})) if k else None
