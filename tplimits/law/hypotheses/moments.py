"""Moments: a vector enters the limit by its ket, which needs a finite second moment.

    (1/n) Σ x_α y_α → E |x⟩|y⟩   for x, y pseudo-Lipschitz, or at least square integrable

(Yang & Littwin 2023, Setup 2.6.3).  What is known of a ket is a `Tail`: bounded, of polynomial growth (with a degree),
exponential, and the powers q up to which it is in L^q, which poles make finite.  Tails are combined instruction by
instruction: sums take the least power, products of dependent factors Hölder's (1/q = Σ 1/q_i), means over boxes
inherit the tail of what is averaged (Jensen).  INFINITE is said only when it is certain, UNKNOWN where the analysis
does not reach.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.absolutes import as_square, with_single_abs
from tplimits.law.hypotheses.bounds import bounds, never_negative
from tplimits.law.hypotheses.exponents import exponential, in_exponentials, in_logarithms, is_outgrown
from tplimits.law.hypotheses.products import of_product
from tplimits.law.hypotheses.quotients import Pole, as_quotient, by_argument, divided, merged, shared, shares_of_pole
from tplimits.law.hypotheses.read_where import by_branches
from tplimits.law.hypotheses.signs import LONG, Signs, without_names
from tplimits.law.hypotheses.tails import Growth, Tail, best, of_sum, untruncated
from tplimits.law.hypotheses.vanishing import almost_never_zero, integrable, locus, order, vanishing, without_even_signs
from tplimits.law.hypotheses.zero import has_flat
from tplimits.law.means import BoxMean
from tplimits.program.nodes import functions
from tplimits.program.nodes.domains import INVERSES, ends_of_domains, where_chosen
from tplimits.program.nodes.properties import BOUNDED, LINEAR
from tplimits.program.parts import found, holds, longer

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

_CHOOSING = (functions.maximum, functions.minimum, functions.where)
#: what most terms are
_BOUNDED, _LINEAR = Tail(Growth.BOUNDED), Tail(Growth.POLYNOMIAL, S.One)
_JUMPING = (*functions.JUMPS, BoxMean)


def tail(expr: Expr, gaussians: Randomness) -> Tail:
    """The tail of a ket, as far as second moments are concerned."""
    # signs and moduli first: |x y| and sign² hide which pole a numerator makes up for
    expr = with_single_abs(without_even_signs(where_chosen(expr), gaussians))
    tails = [by_branches(_Analysis(gaussians), way) for way in dict.fromkeys((expr, untruncated(expr)))]
    growth = next((t for t in tails if t.established), tails[0])
    # what grows exponentially may be divided by what grows as fast: sinh(x)/cosh(x)
    if growth.kind.value >= Growth.EXPONENTIAL.value and not growth.unreal and (way := in_exponentials(expr)) != expr:
        together = by_branches(_Analysis(gaussians), way)
        growth = min(growth, together, key=lambda t: t.kind.value) if together.established else growth
    # in L^q for q below the power only: at 2 a second moment is not established by it
    if growth.power is not S.Infinity and growth.established and growth.power <= 2:
        return replace(growth, kind=Growth.UNKNOWN, why=(expr, " is seen to be in L^q only for q < ", growth.power))
    return growth


class _Analysis:
    def __init__(self, gaussians: Randomness) -> None:
        self.gaussians = gaussians
        self.signs = Signs(gaussians)

    def random(self, expr: Expr) -> bool:
        return any(self.gaussians.is_random(s) for s in found(expr, Symbol))

    def almost_never_zero(self, expr: Expr) -> bool:
        return almost_never_zero(expr, self.gaussians)

    def growth(self, expr: Expr) -> Tail:
        """The tail of an expression, found once: shares of a pole ask for the same powers, streams for all layers."""
        if not self.random(expr):
            return _BOUNDED
        known = self.gaussians.growths
        if expr not in known:
            known[expr] = self._found(expr)
        return known[expr]

    def _found(self, expr: Expr) -> Tail:
        if expr.is_Symbol:
            definition = self.gaussians.definition(expr)
            return _LINEAR if definition is None else by_branches(self, definition)
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            return self._combined(expr)
        if isinstance(expr, BoxMean):  # by Jensen at most that; a mean over others smooths poles away
            known = self.growth(expr.integrand)
            return known if known.unreal or known.established else replace(known, kind=Growth.UNKNOWN)
        if isinstance(expr, BOUNDED):
            return self._bounded(expr)
        if isinstance(expr, (*_CHOOSING, *LINEAR)):
            return self._chosen(expr)
        if isinstance(expr, sympy.exp):
            return self._exponential(expr.args[0])
        if isinstance(expr, (sympy.sinh, sympy.cosh)):
            return of_sum([self._exponential(expr.args[0]), self._exponential(-expr.args[0])])
        if isinstance(expr, sympy.log):
            return self._logarithm(expr.args[0])
        if isinstance(expr, sympy.tan):
            return self._power(sympy.cos(expr.args[0]), S.NegativeOne, [sympy.sin(expr.args[0])])
        if isinstance(expr, sympy.Pow):
            return self._power(expr.base, expr.exp, [])
        if isinstance(expr, INVERSES):
            return self._inverse(expr)
        return Tail(Growth.UNKNOWN, why=("the growth of `", expr, "` is not known"))

    def _bounded(self, expr: Expr) -> Tail:
        """Bounded only if it is real: tanh(√h) is no number where h < 0."""
        inner = of_sum([self.growth(a) for a in expr.args])
        return inner if inner.unreal else _BOUNDED

    def _chosen(self, expr: Expr) -> Tail:
        """Of max(x, y) and its like, and of functions that grow no faster than what they read.

        An infinite moment of one of them is none of the whole, for it need not be chosen where it is large.
        """
        chosen = expr.args[1:] if isinstance(expr, functions.where) else expr.args
        inner, (low, high) = of_sum([self.growth(a) for a in chosen]), bounds(expr)
        if inner.unreal or (low > -sympy.oo and high < sympy.oo):
            return inner if inner.unreal else _BOUNDED
        positive = all(map(never_negative, chosen))
        if isinstance(expr, functions.minimum) and positive and not inner.established:
            good = [t for t in map(self.growth, chosen) if t.established]
            return max(good, key=lambda t: t.power) if good else replace(inner, kind=Growth.UNKNOWN)
        keeps = not isinstance(expr, (*_CHOOSING, sympy.asinh)) or (isinstance(expr, functions.maximum) and positive)
        return inner if keeps or inner.kind is not Growth.INFINITE else replace(inner, kind=Growth.UNKNOWN)

    def _combined(self, expr: Expr) -> Tail:
        """Term by term, or over one denominator where poles of terms may cancel."""
        apart = of_sum([self.growth(a) for a in expr.args]) if expr.is_Add else self._product(expr)
        if (apart.established and apart.power > 2) or apart.unreal or not holds(expr, sympy.Add):
            return apart
        whole = as_quotient(expr, self.random, lambda t: self.growth(t).established)
        together = apart if whole == expr else self.growth(whole)
        return together if together.established else apart

    def _product(self, expr: sympy.Mul) -> Tail:
        factors = [f for f in expr.args if self.random(f)]
        if len(factors) == 1 and factors[0].is_Symbol:
            return self.growth(factors[0])
        exponentials = [f for f in expr.args if isinstance(f, sympy.exp)]
        # exponents add: E exp(Q₁)exp(Q₂) may be infinite though both are square integrable, or finite though one is not
        if len(exponentials) > 1:
            together = sympy.exp(sympy.Add(*(f.args[0] for f in exponentials)))
            return self.growth(sympy.Mul(together, *(f for f in expr.args if f not in exponentials)))
        if (factored := list(map(self._factored, expr.args))) != list(expr.args):
            return self.growth(sympy.Mul(*factored))
        poles = [f for f in expr.args if isinstance(f, sympy.Pow) and f.exp.is_negative and self.random(f.base)]
        others = [f for f in expr.args if f not in poles]
        for doubt in filter(None, map(self._at_rest, poles)):
            return doubt
        for known in (self._by_argument(poles, others), self._without_differences(poles, others)):
            if known is not None:
                return known
        for pole in sorted(poles, key=sympy.count_ops, reverse=True):  # a pole inside of another is used up by it
            beside = self._beside_share(pole.base, pole.exp, [f for f in expr.args if f is not pole])
            if beside is not None:
                return self.growth(sympy.Mul(*beside))
        free, tails = list(others), [(f, self.growth(f)) for f in others]  # a numerator makes up for one pole
        # each numerator counts for one pole only: x/(x·y) at both would be counted twice
        for base, power, own in merged(list(map(self._at_form, poles))):
            tails.append((sympy.Mul(*own), self._power(base, power, [f for f in expr.args if f not in own], free)))
            if (known := tails[-1][1]).beside:
                return known
            zeros = vanishing(base, self.gaussians) if len(poles) > 1 else None
            free = [f for f in free if zeros is None or order(f, zeros, self.gaussians) == 0]
        return of_product(tails, self.gaussians)

    def _at_rest(self, pole: sympy.Pow) -> Tail | None:
        """The doubt of a pole at what may be 0 for a share of neurons, where no numerator makes a number of it."""
        low, high = bounds(pole.base)
        if not (low <= 0 <= high and has_flat(pole.base)) or self.almost_never_zero(pole.base):
            return None
        why = ("whether ", pole.base, " is 0 at a share of neurons is not decided")
        return Tail(Growth.UNKNOWN, why=why, unreal=True)

    def _factored(self, factor: Expr) -> Expr:
        """A pole at a sum as the poles at what its terms share and at the rest: 1/(x + x³) is x⁻¹/(1 + x²).

        What may be 0 stays, relu(x) and numbers in disguise: relu(x)/(relu(x) + relu(x)²) is no number there.
        """
        base, power = factor.as_base_exp()
        if not (base.is_Add and power.is_Integer and power.is_negative):
            return factor
        certain = all(self.almost_never_zero(p) for p in shared(base) if not (p.is_Add and self.random(p)))
        return sympy.Mul(*(p**power for p in shared(base))) if certain else factor

    def _by_argument(self, poles: Sequence[sympy.Pow], others: Sequence[Expr]) -> Tail | None:
        """Where a function of a product makes up for the poles at several of its factors together; or None."""
        for f, left in by_argument(poles, others) if len(poles) > 1 else ():
            tail = of_product([(f, of_sum([_BOUNDED, self.growth(f)])), (left, self.growth(left))], self.gaussians)
            if tail.established:
                return tail
        return None

    def _without_differences(self, poles: Sequence[sympy.Pow], others: Sequence[Expr]) -> Tail | None:
        """Of a product with a factor that takes a pole away as (sin x − sin y)/(x − y) does; None for others."""
        for pole in map(self._at_form, poles):
            # a factor whose order there is known by its head, as of tanh(x) at x, is no difference
            free = [f for f in others if order(f, pole.zeros, self.gaussians) == 0] if pole.zeros else ()
            found = divided(pole, free, self.gaussians)
            if found is not None and (slope := self.growth(found[1])).has_all_moments:
                rest = sympy.Mul(found[2], *(f for f in (*poles, *others) if f not in (pole.written, found[0])))
                return of_product([(found[1], slope), (rest, self.growth(rest))], self.gaussians)
        return None

    def _at_form(self, pole: sympy.Pow) -> Pole:
        zeros = locus(pole.base, self.gaussians)
        return Pole(pole, zeros if zeros is not None and len(zeros.forms) == 1 else None)

    def _beside_share(self, base: Expr, power: Expr, others: Sequence[Expr]) -> list[Expr] | None:
        """What stands beside |f|ᵏ / (|f|ᵐ + non-negative terms)^(k/m), at most 1 as softmax weights are; or None."""
        if not power.is_Rational or not isinstance(base, sympy.Add) or not all(map(never_negative, base.args)):
            return None
        exponent = next((f.args[0] for f in others if isinstance(f, sympy.exp)), None)
        if exponent is not None and is_outgrown(exponent, base.args, -power):
            return [f for f in others if not isinstance(f, sympy.exp)]
        for term in (terms := base.args):
            parts = sympy.Mul.make_args(term.as_coeff_Mul()[1])
            factors, reads = {sympy.Abs(f) ** -power for f in parts}, {found(f, Symbol) for f in parts}
            # moduli of long products are dear: of what reads the same alone
            beside = [f for f in others if found(f, Symbol) not in reads or sympy.Abs(f) not in factors]
            if len(beside) == len(others) - len(factors) and any(almost_never_zero(t, self.gaussians) for t in terms):
                return beside
        return None

    def _exponential(self, exponent: Expr) -> Tail:
        return exponential(exponent, self.growth, self.gaussians)

    def _leaving(self, end: Expr, told: tuple[Expr | str, ...], doubt: tuple[Expr | str, ...]) -> Tail | None:
        """The tail of what is real where `end` is not negative; None where it is that nowhere."""
        # a name has no sign of its own: 1 + h² or |h| under a root may have one
        for way in (end, end := without_names(end, self.gaussians)):
            if not bounds(way)[0].is_extended_negative:
                return None
        if self.signs.takes_negative(end):  # certain only where it was seen; the interval bound alone may be loose
            return Tail(Growth.INFINITE, why=(*told, " is not real with positive probability"), unreal=True)
        return Tail(Growth.UNKNOWN, why=doubt, unreal=True)

    def _inverse(self, expr: Expr) -> Tail:
        """Arcsine and arccosine, bounded where they are real, and artanh, a difference of logarithms there."""
        argument, end = expr.args[0], next(a for node, a in ends_of_domains(expr) if node == expr)
        if left := self._leaving(end, (expr,), ("whether ", argument, " leaves its domain is not decided")):
            return left
        logarithms = [sympy.log(1 + argument), sympy.log(1 - argument)] if isinstance(expr, sympy.atanh) else []
        return of_sum([self._bounded(expr), *map(self.growth, logarithms)])

    def _logarithm(self, argument: Expr) -> Tail:
        inner, opened = self.growth(argument), without_names(argument, self.gaussians)
        if inner.unreal:
            return inner
        doubt = ("the sign of ", argument, " inside log is not decided")
        if left := self._leaving(argument, ("log(", argument, ")"), doubt):
            return left
        if not inner.established:  # a logarithm of a pole may be integrable
            terms = in_logarithms(opened)
            return of_sum(list(map(self.growth, terms))) if terms else replace(inner, kind=Growth.UNKNOWN)
        named = any(self.gaussians.definition(s) for s in opened.free_symbols if self.gaussians.is_random(s))
        smooth = not named and not opened.has(*_JUMPING, functions.relu)
        if smooth or bounds(opened)[0] > 0 or locus(opened, self.gaussians) is not None:
            # log|u| is in every L^q near a zero of finite order, and at most linear in what u grows like
            return Tail(Growth.POLYNOMIAL, max(S.One, inner.degree))
        return Tail(Growth.UNKNOWN, why=("whether ", opened, " inside log vanishes is not decided"))

    def _power(self, base: Expr, power: Expr, others: Sequence[Expr], free: Sequence[Expr] | None = None) -> Tail:
        """A power beside other factors, of which those in `free` may make up for its pole."""
        _, base = as_square(base).as_coeff_Mul() if power.is_negative else (S.One, base)
        if not power.is_comparable:
            if not self.random(power):
                return Tail(Growth.UNKNOWN, why=("the exponent ", power, " is not known"))
            if base.is_positive:
                return self._exponential(power * sympy.log(base))
            return Tail(Growth.UNKNOWN, why=("the growth of (", base, ")**(", power, ") is not known"))
        # (f²)^p of what is never negative
        if isinstance(base, (sympy.Pow, sympy.Abs)) and never_negative(base.args[0]):
            within = base.exp if base.is_Pow else S.One
            if within.is_Rational:
                return self._power(base.args[0], within * power, others, free)
        inner = self.growth(base)
        low, high = bounds(base)
        # unreal beats everything: a bounded function of it, or a factor beside it, makes no number of it
        if inner.unreal:
            return inner
        doubt = ("the sign of ", base, " under a root is not decided")
        if not power.is_Integer and (left := self._leaving(base, ("(", base, ")**(", power, ")"), doubt)):
            return left
        if power > 0:
            if inner.kind in (Growth.UNKNOWN, Growth.INFINITE):
                # the root of what has no second moment may have one
                return inner if power >= 1 else replace(inner, kind=Growth.UNKNOWN)
            return Tail(inner.kind, inner.degree * power, power=inner.power / power)
        if low.is_extended_positive or high.is_extended_negative:
            return Tail(Growth.BOUNDED)
        reached = integrable(base, -power, others if free is None else free, self.gaussians)
        if reached is not None and reached > 2:
            return Tail(Growth.BOUNDED, power=reached)
        return self._pole(base, -power, others)

    def _pole(self, base: Expr, power: Expr, others: Sequence[Expr]) -> Tail:
        if isinstance(base, sympy.exp):
            return self._exponential(-power * base.args[0])
        if isinstance(base, (functions.softplus, functions.sigmoid, sympy.sech)):  # at least c exp(−|x|)
            return self._exponential(power * sympy.Abs(base.args[0]))
        if isinstance(base, sympy.Add) and all(map(never_negative, base.args)):
            # a sum of non-negative terms is at least each of them
            single = [self._power(t, -power, []) for t in base.args]
            # of forms alone the weight is known, and has told
            zeros = locus(base, self.gaussians)
            shares = shares_of_pole(base.args, power) if zeros is None or len(zeros.forms) < len(base.args) else ()
            if good := best(itertools.chain(single, map(self.growth, shares))):
                return good
        # beside other factors it is left undecided: one of them may be 0 where relu is
        if isinstance(base, functions.relu) and not others:
            return Tail(Growth.INFINITE, why=("1/", base, " is infinite with positive probability"), unreal=True)
        core = base.args[0] if isinstance(base, sympy.Abs) else base
        # a Lipschitz f vanishes at least like t where it changes sign: E |f|^(−2p) ≥ c ∫ |t|^(−2p) dt = ∞ from ½
        if power >= S.Half and not core.has(*_JUMPING):
            point = self.signs.sign_change(core)
            if point is not None and self.signs.none_vanishes(others, point):
                pole = ("(", base, ")**(", -power, ") has a pole where ", core, " changes sign")
                return Tail(Growth.INFINITE, why=pole, beside=bool(others))
        # last, since a name's definition may be long: what vanishes may be split between names
        opened = without_names(base, self.gaussians)
        if opened != base and not longer(opened, LONG):
            return self._power(opened, -power, others)
        told = ("whether (", base, ")**(", -power, ") is square integrable is not decided")
        return Tail(Growth.UNKNOWN, why=told, unreal=has_flat(base) and not self.almost_never_zero(base))
