"""Poles of kets: how often a negative power of a random denominator is integrable, and what a numerator takes away.

A denominator that vanishes where linear forms ℓ_1 … ℓ_k of the variables vanish together, with

    D ≥ c · Σ_i |ℓ_i|^(a_i)   near that set, and away from it D ≥ c > 0,

has P(D < ε) ~ ε^w with w = Σ 1/a_i for linearly independent forms.  With a numerator |N| ≤ C ε^μ where D ~ ε (a form
ℓ_i brings μ = 1/a_i),

    N · D^(−p)   is in L^q near the set  ⇔   q · (p − μ) < w.

So tanh(x)/x has no pole at all, x/√(x² + y²) is bounded there, (x² + y²)^(−1/4) is in L^q for q < 4.  Any other
function f may stand for a form if it is almost never zero: then w is not known, but what is O(D^p) is bounded beside
D^(−p), so tanh(f)/f and f²/(f² + y²) have no pole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.bounds import bounds, never_negative
from tplimits.law.hypotheses.linear import independent, linear
from tplimits.law.hypotheses.reader import answered_once
from tplimits.law.hypotheses.signs import variables_in, without_names
from tplimits.law.hypotheses.squares import roots_of_squares
from tplimits.law.hypotheses.taylor import order_whatever_else
from tplimits.program.nodes import functions
from tplimits.program.nodes.properties import CROSSING, KINKED, POSITIVE, VANISHING, is_entire
from tplimits.program.parts import found, holds, put_for, remembered

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: a value above this is certainly not zero
_SEEN = 1e-9
#: zero at 0 alone
_ZERO_AT_ZERO: tuple[Any, ...] = (*CROSSING, functions.leaky_relu, sympy.sign)
#: strictly increasing with a slope that vanishes nowhere, and where they take a value
_INCREASING: dict[type, Callable[[Expr], Expr]] = {
    sympy.exp: sympy.log,
    functions.sigmoid: lambda value: sympy.log(value / (1 - value)),
    functions.softplus: lambda value: sympy.log(sympy.exp(value) - 1),
}
#: stands for a form in functions of it alone
FORM = sympy.Dummy("t", real=True)


@dataclass(frozen=True)
class Locus:
    """Where a denominator vanishes: linear forms and the exponents a_i with which it leaves zero."""

    forms: tuple[tuple[Expr, Expr], ...]
    #: other functions that vanish with it, and their exponents
    others: tuple[tuple[Expr, Expr], ...] = ()

    @property
    def weight(self) -> Expr:
        """w in P(D < ε) ~ ε^w."""
        return sympy.Add(*(1 / a for _, a in self.forms))


@answered_once
def locus(base: Expr, gaussians: Randomness) -> Locus | None:
    """The zero set of a denominator; None where it is not of this kind."""
    zeros = _forms(base, gaussians)
    forms = [pair for pair in zeros if linear(pair[0], gaussians) is not None]
    return Locus(tuple(independent(forms, gaussians))) if forms else None


@answered_once
def vanishing(base: Expr, gaussians: Randomness) -> Locus | None:
    """The same with functions that are no forms; None where the base may vanish with positive probability."""
    zeros = _forms(base, gaussians)
    forms = [pair for pair in zeros if linear(pair[0], gaussians) is not None]
    others = [pair for pair in zeros if pair not in forms]
    # a base that vanishes with positive probability divides by 0 there: no power of anything repairs that
    if not forms and not any(almost_never_zero(f, gaussians) for f, _ in others):
        return None
    return Locus(tuple(independent(forms, gaussians)), tuple(others))


@answered_once
def almost_never_zero(expr: Expr, gaussians: Randomness) -> bool:
    """Whether a function of Gaussian variables is seen to vanish with probability 0."""
    if isinstance(expr, POSITIVE):
        return True
    if not gaussians.of(expr):
        return bool(expr.is_number and expr != 0)
    if expr.is_Symbol and gaussians.definition(expr) is not None:
        return almost_never_zero(gaussians.definition(expr), gaussians)
    if locus(expr, gaussians) is not None:
        return True
    if isinstance(expr, _ZERO_AT_ZERO):
        return almost_never_zero(expr.args[0], gaussians)
    # either branch may be taken: both have to keep off
    if isinstance(expr, functions.where):
        return all(almost_never_zero(a, gaussians) for a in expr.args[1:])
    if isinstance(expr, (sympy.sin, sympy.cos)):
        # zeros at multiples of π: countably many values of one Gaussian form with a density
        forms = _forms(expr.args[0], gaussians)
        if len(forms) == 1 and linear(forms[0][0], gaussians) and not gaussians.of(expr.args[0] / forms[0][0]):
            return True
    if isinstance(expr, (sympy.Mul, functions.maximum, functions.minimum)):
        return all(almost_never_zero(a, gaussians) for a in expr.args)
    if isinstance(expr, sympy.Pow) and expr.exp.is_Rational:  # of a negative one the base has to be finite
        return almost_never_zero(expr.base, gaussians)
    # an analytic function that is not identically 0 vanishes on a null set, and one point tells that it is not
    return _is_affine(expr, gaussians) or (is_entire(expr, *expr.free_symbols) and _is_seen(expr, gaussians))


def without_even_signs(expr: Expr, gaussians: Randomness) -> Expr:
    """sign(f)² as 1, sin²(sign f) as sin²(1), where f is almost never zero."""
    swap: dict[Expr, Expr] = {}
    for power in found(expr, sympy.Pow) if holds(expr, sympy.sign) else ():
        for node in found(power.base, sympy.sign) if power.exp.is_even else ():
            up, down = (power.xreplace({node: side}) for side in (S.One, S.NegativeOne))
            if up == down and almost_never_zero(node.args[0], gaussians):
                swap[power] = up
    return expr.xreplace(swap) if swap else expr


def _certain(number: Expr) -> bool:
    """Whether a factor that is not random is not zero: what is divided by has been judged as a pole."""
    return bool((number.is_number and number != 0) or number.is_nonzero or (number.is_Pow and number.exp.is_negative))


def _is_affine(expr: Expr, gaussians: Randomness) -> bool:
    """Whether it is c·z + d with z independent of c and d, and c almost never zero: given these, z has a density."""
    if not expr.is_Add:
        return False
    for z in variables_in(expr, gaussians):
        holds = [t for t in expr.args if z in gaussians.of(t)]
        slope = holds[0] / z if len(holds) == 1 else S.Zero
        others = gaussians.of(slope) | gaussians.of(expr - holds[0])
        if slope != 0 and z not in others and all(gaussians.covariance(z, w) == 0 for w in others):
            return almost_never_zero(slope, gaussians)
    return False


def _is_seen(expr: Expr, gaussians: Randomness) -> bool:
    """Whether a function of independent variables, and of nothing else, is not zero at some point."""
    variables = variables_in(expr, gaussians)
    pairs: list[tuple[Expr, Expr]] = [(v, S.One) for v in variables]
    if set(variables) != expr.free_symbols or len(independent(pairs, gaussians)) < len(variables):
        return False
    # a point with no coincidence between its coordinates, so that differences do not vanish there
    value = expr.xreplace({v: sympy.Float(0.7 + 0.31 * i) for i, v in enumerate(variables)}).evalf()
    return bool(value.is_comparable and abs(value) > _SEEN)


def integrable(base: Expr, power: Expr, numerator: Sequence[Expr], gaussians: Randomness) -> Expr | None:
    """The q up to which (numerator · base^(−power)) is in L^q near the zeros of the base; None if not known."""
    zeros = vanishing(base, gaussians)
    if zeros is None:
        return None
    # p − μ: once the numerator takes the whole pole the quotient is bounded near the set
    left = power - sympy.Add(*(order(f, zeros, gaussians) for f in numerator))
    return sympy.oo if left <= 0 else zeros.weight / left


@answered_once
def order(factor: Expr, at: Locus, gaussians: Randomness) -> Expr:
    """A μ with |factor| ≤ C ε^μ near the zeros of a denominator that is ε there (0 where nothing is known)."""
    # first: with decimal coefficients, which no system of equations cancels, a form is not seen in the span of itself
    same = [1 / a for f, a in (*at.forms, *at.others) if factor in (f, -f)]
    if same:
        return max(same)
    if factor.is_Symbol and gaussians.is_random(factor) and gaussians.definition(factor) is not None:
        return order(gaussians.definition(factor), at, gaussians)
    if isinstance(factor, sympy.Mul):
        return sympy.Add(*(order(f, at, gaussians) for f in factor.args))
    if isinstance(factor, sympy.Pow) and factor.exp.is_Rational and factor.exp.is_positive:
        return factor.exp * order(factor.base, at, gaussians)
    if isinstance(factor, VANISHING):
        return order(factor.args[0], at, gaussians)
    if isinstance(factor, (functions.maximum, functions.minimum)):
        # |max(f, −b)| ≤ |f| and |min(f, b)| ≤ |f| for b > 0
        sign = -1 if isinstance(factor, functions.maximum) else 1
        inner = [f for f, b in (factor.args, factor.args[::-1]) if (sign * b).is_positive]
        return order(inner[0], at, gaussians) if inner else S.Zero
    span = _in_span(factor, at, gaussians)
    if span is not None:
        return span
    smooth = _smooth_order(factor, at, gaussians)
    if smooth is not None:
        return smooth
    # a sum vanishes at least as fast as its slowest term
    return min((order(a, at, gaussians) for a in factor.args), default=S.Zero) if factor.is_Add else S.Zero


def _smooth_order(factor: Expr, at: Locus, gaussians: Randomness) -> Expr | None:
    """k·μ for a function F(g) = O(g^k) of a form, or of what has a kink at one, that is O(ε^μ); None for others."""
    factor = without_names(factor, gaussians)  # exp(h) − 1 − x where h is x
    for inner in places(factor, [f for f, _ in (*at.forms, *at.others)]):
        alone = function_of(factor, inner, gaussians)
        k = None if alone is None else order_whatever_else(alone, FORM)
        if k is not None:
            return k * order(inner, at, gaussians)
    return None


def places(factor: Expr, zeros: Sequence[Expr]) -> list[Expr]:
    """What a factor may be a function of alone: one of these zeros, or a kink inside it."""
    return [*zeros, *sorted(found(factor, *KINKED) - {factor}, key=str)]


def function_of(factor: Expr, inner: Expr, gaussians: Randomness) -> Expr | None:
    """F where a factor is F(inner), with FORM in the place of the inner function, or of an affine one; None if not."""
    slopes = linear(inner, gaussians)
    if slopes:
        variable, slope = next(iter(slopes.items()))
        alone = factor.xreplace({variable: (FORM - (inner - slope * variable)) / slope})
    else:
        alone = put_for(factor, inner, FORM)
    return alone if alone.has(FORM) and not gaussians.of(alone) else None


def _without_offset(base: Expr, gaussians: Randomness) -> Expr | None:
    """f − f₀ for c + k·H(f) with H increasing and k·H(f₀) = −c, which is at least a multiple of it near its zero."""
    if isinstance(base, sympy.log):
        return base.args[0] - 1
    number, moving = base.as_independent(*gaussians.of(base), as_Add=True)
    slope, head = moving.as_independent(*gaussians.of(base), as_Add=False)
    if not (number.is_number and slope.is_number and type(head) in _INCREASING):
        return None
    place = _INCREASING[type(head)](-number / slope)
    return head.args[0] - place if place.is_real and place.is_finite else None


def _steep_in(base: Expr, gaussians: Randomness) -> Expr | None:
    """z for F(z) with F(0) = 0 and |F'| ≥ c > 0, which is at least c|z|: z + z³, e^z − e^(−z); None for others.

    >>> from tplimits.law.gaussians import independent as law
    >>> z = sympy.Symbol("z", real=True)
    >>> [_steep_in(f, law([z])) for f in (z + z**3, sympy.exp(-z) - sympy.exp(z), z - z**3, z**2 + z**3)]
    [z, z, None, None]
    """
    variables = variables_in(base, gaussians)
    if len(variables) != 1 or base.free_symbols != set(variables) or not is_entire(base, *variables, beside=KINKED):
        return None
    zero = {variables[0]: S.Zero}
    slope = base.diff(variables[0])
    start = slope.xreplace(zero)
    if base.xreplace(zero) != 0 or not start.is_nonzero:
        return None
    # that of e^z + e^(−z) is seen as what it is more than at 0
    slope, start = (slope, start) if start.is_positive else (-slope, -start)
    least = max(bounds(slope)[0], start + bounds(slope - start)[0])
    return variables[0] if least.is_extended_positive else None


@answered_once
def _forms(base: Expr, gaussians: Randomness) -> list[tuple[Expr, Expr]]:
    """(function, exponent) of a denominator that is not zero elsewhere, linear forms where they are; or empty."""
    low, high = bounds(base)
    if low.is_extended_positive or high.is_extended_negative:
        return []
    if isinstance(base, sympy.Pow) and base.exp.is_Rational and base.exp.is_positive:
        return [(f, a * base.exp) for f, a in _forms(base.base, gaussians)]
    if isinstance(base, CROSSING):
        return _forms(base.args[0], gaussians)
    if isinstance(base, sympy.Mul):
        fixed = [f for f in base.args if not gaussians.of(f)]
        moving = [f for f in base.args if gaussians.of(f)]
        if not all(map(_certain, fixed)):
            return []
        # of two factors that vanish the zero set is a union, not an intersection: the product stands for itself
        moving = [f for f in moving if bounds(f)[0] <= 0] or moving  # 1 + x² times f is at least f
        return _forms(moving[0], gaussians) if len(moving) == 1 else [(base, S.One)]
    if linear(base, gaussians) is not None:
        return [(base, S.One)]
    if isinstance(base, (sympy.Add, functions.maximum)) and all(map(never_negative, base.args)):
        return [pair for t in base.args for pair in _forms(t, gaussians)]
    inner = _without_offset(base, gaussians) or _steep_in(base, gaussians)
    if inner is not None:
        return _forms(inner, gaussians)
    forms = roots_of_squares(base) if set(variables_in(base, gaussians)) == base.free_symbols else []
    return forms or ([(base, S.One)] if gaussians.of(base) else [])


def _in_span(factor: Expr, at: Locus, gaussians: Randomness) -> Expr | None:
    """The order of a linear combination of the forms; None for what is none."""
    if not at.forms or not gaussians.of(factor) or linear(factor, gaussians) is None:
        return None
    variables = sorted({v for f in (factor, *(f for f, _ in at.forms)) for v in variables_in(f, gaussians)}, key=str)
    return _combined(factor, at.forms, tuple(variables))


@remembered(1 << 12)
def _combined(factor: Expr, forms: tuple[tuple[Expr, Expr], ...], variables: tuple[Symbol, ...]) -> Expr | None:
    unknowns = sympy.symbols(f"c:{len(forms)}", real=True)
    rest = sympy.expand(factor - sympy.Add(*(c * f for c, (f, _) in zip(unknowns, forms, strict=True))))
    equations = [rest.coeff(v) for v in variables] + [rest.xreplace(dict.fromkeys(variables, S.Zero))]
    solution = next(iter(sympy.linsolve(equations, *unknowns)), None)
    if solution is None:
        return None
    used = [1 / a for c, (_, a) in zip(solution, forms, strict=True) if c != 0]
    return min(used, default=S.Zero)
