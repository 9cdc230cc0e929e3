"""Exponentials of functions of Gaussian variables: E exp(Q) is finite for Q linear, or quadratic and small enough.

Their logarithms grow like Q itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.closed_forms.integrand import eigenvalues
from tplimits.law.hypotheses.bounds import bounds, never_negative
from tplimits.law.hypotheses.signs import variables_in, without_names
from tplimits.law.hypotheses.tails import Growth, Tail
from tplimits.program.parts import found, holds, put_in

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness


def exponential(exponent: Expr, growth: Callable[[Expr], Tail], gaussians: Randomness) -> Tail:
    """The tail of exp(exponent), where `growth` tells those of other expressions."""
    inner = growth(exponent)
    if inner.unreal:  # before all bounds: exp(−√x) is no number where x < 0
        return inner
    if bounds(exponent)[1] < sympy.oo:
        return Tail(Growth.BOUNDED)
    exponent = without_names(exponent, gaussians)  # a name may stand for x + 1, or for |x|
    if bounds(exponent)[1] < sympy.oo:
        return Tail(Growth.BOUNDED)
    # |exponent| ≤ a + b|g|: all moments are finite, by E exp(c|g|) < ∞ for every c
    if inner.kind in (Growth.BOUNDED, Growth.POLYNOMIAL) and inner.degree <= 1 and inner.power is S.Infinity:
        return Tail(Growth.EXPONENTIAL, S.One)
    # or for a logarithm that is known to be real: exp(log(1 + x²)/2) is a power
    if inner.established and not isinstance(whole := sympy.exp(exponent), sympy.exp):
        return growth(whole)
    variables = variables_in(exponent, gaussians)
    if not variables:
        return Tail(Growth.UNKNOWN, why=("the moments of exp(", exponent, ") are not decided"))
    try:
        poly = sympy.Poly(sympy.expand(exponent), *variables)
    except sympy.PolynomialError:
        return _fast_exponent(exponent, gaussians)
    if any(gaussians.of(c) for c in poly.coeffs()):
        return Tail(Growth.UNKNOWN, why=("the growth of exp(", exponent, ") is not known"))
    degree = poly.total_degree()
    if degree <= 2:
        return _gaussian_exponent(poly, variables, gaussians)
    # beyond degree 2 the leading form decides: positive along one ray, it beats the density on a cone around that ray
    leading = {m: c for m, c in poly.terms() if sum(m) == degree}
    # 3^4 rays at most; that none of these is positive proves nothing, hence UNKNOWN below
    for direction in itertools.product((-1, 0, 1), repeat=min(len(variables), 4)):
        point = (*direction, *(0,) * (len(variables) - len(direction)))
        value = sympy.Add(
            *(c * sympy.Mul(*(S(x) ** e for x, e in zip(point, m, strict=True))) for m, c in leading.items())
        )
        if value.is_positive:
            return Tail(Growth.INFINITE, why=("exp(", exponent, ") grows faster than a Gaussian density decays"))
    if len(variables) == 1 and degree % 2 == 0 and poly.LC().is_negative:
        return Tail(Growth.BOUNDED)
    return Tail(Growth.UNKNOWN, why=("the moments of exp(", exponent, ") are not decided"))


def in_exponentials(expr: Expr) -> Expr:
    """With exponentials for sinh and cosh, term by term over what is divided by.

    >>> x = sympy.Symbol("x", real=True)
    >>> in_exponentials(sympy.sinh(x) / (1 + sympy.exp(x)))
    exp(x)/(2*(exp(x) + 1)) - exp(-x)/(2*(exp(x) + 1))
    """
    if not holds(expr, sympy.exp, sympy.sinh, sympy.cosh):
        return expr
    halves = {node: (sympy.exp(node.args[0]) + sign * sympy.exp(-node.args[0])) / 2
              for head, sign in ((sympy.cosh, 1), (sympy.sinh, -1)) for node in found(expr, head)}  # fmt: skip
    whole = put_in(expr, halves, {})
    below = {pole: sympy.Dummy() for pole in found(whole, sympy.Pow) if pole.exp.is_negative and pole.base.is_Add}
    return put_in(sympy.expand(put_in(whole, below, {})), {name: pole for pole, name in below.items()}, {})


def in_logarithms(argument: Expr) -> list[Expr]:
    """What log(argument) grows no faster than the sum of; nothing where that is not seen.

    |log Π f| ≤ Σ |log f|, and |log Σ t| ≤ log k + Σ |log t| for k positive terms: the logarithm of what has no moments
    may have all of them, log(1 + exp(x³)) grows like |x|³.  Where a term may be 0 its own logarithm is asked for that.
    """
    argument = sympy.factor_terms(argument)
    parts = argument.args if isinstance(argument, (sympy.Add, sympy.Mul)) else (argument,)
    if not all(map(never_negative, parts)):
        return []
    exponents = [p.as_base_exp() for p in parts]
    found = [power if base == S.Exp1 else power * sympy.log(sympy.Abs(base)) for base, power in exponents]
    return [] if found == [sympy.log(argument)] else found


def is_outgrown(exponent: Expr, terms: Sequence[Expr], power: Expr) -> bool:
    """Whether eᵐ (Σ cᵢ e^(mᵢ))^(−p) is bounded for c > 0: where m/p lies between two of the mᵢ.

    >>> x = sympy.Symbol("x", real=True)
    >>> [is_outgrown(k * x, [sympy.S.One, sympy.exp(2 * x)], 1) for k in (1, 2, 3)]
    [True, True, False]
    """
    parts = [term.as_coeff_Mul() for term in terms]
    rates = [rest.args[0] if isinstance(rest, sympy.exp) else S.Zero for c, rest in parts
             if c.is_positive and (isinstance(rest, sympy.exp) or rest == 1)]  # fmt: skip
    for low, high in itertools.combinations_with_replacement(rates, 2):
        left, whole = sympy.expand(exponent - power * low), sympy.expand(power * (high - low))
        share = S.Zero if left == 0 else S.NegativeOne if whole == 0 else sympy.cancel(left / whole)
        if share.is_number and share.is_real and 0 <= share <= 1:
            return True
    return False


def _fast_exponent(exponent: Expr, gaussians: Randomness) -> Tail:
    """Exponents such as |x|³ or exp(x): certain when one variable alone drives them to +∞ fast."""
    variables = gaussians.of(exponent)
    if len(variables) == 1 and not (exponent.free_symbols - variables):
        (x,) = variables
        for sign in (1, -1):
            # against g²: above it and still growing at 10 and 100, tripled at least, is taken for faster than any
            # multiple of g²
            ratios = [sympy.re((exponent / x**2).subs(x, sign * 10.0**k).evalf()) for k in (1, 2)]
            if all(r.is_comparable or r is sympy.oo for r in ratios) and ratios[0] > 1 and ratios[1] > 3 * ratios[0]:
                return Tail(Growth.INFINITE, why=("exp(", exponent, ") grows faster than a Gaussian density decays"))
    return Tail(Growth.UNKNOWN, why=("the moments of exp(", exponent, ") are not decided"))


def _gaussian_exponent(poly: sympy.Poly, variables: list[Symbol], gaussians: Randomness) -> Tail:
    """exp of a quadratic: finite second moment iff I − 2 C H is positive definite, H the Hessian."""
    expr = poly.as_expr()
    hessian = sympy.Matrix(len(variables), len(variables), lambda i, j: sympy.diff(expr, variables[i], variables[j]))
    covariance = sympy.Matrix(
        len(variables), len(variables), lambda i, j: gaussians.covariance(variables[i], variables[j])
    )
    product = covariance * hessian
    if not all(x.is_number for x in product):
        return Tail(Growth.UNKNOWN, why=("whether exp(", expr, ") has a second moment depends on symbols"))
    # those of C H, which is similar to C^½ H C^½: E exp(q·½ gᵀHg) is finite for q < 1/largest, a second moment needs q
    # = 2
    largest = max(eigenvalues(product))
    if 1 - 2 * largest <= 1e-12:
        borderline = bool(1 - 2 * largest >= -1e-12)
        return Tail(Growth.INFINITE, why=("E exp(2·(", expr, ")) diverges"), borderline=borderline)
    return Tail(Growth.EXPONENTIAL, S(2), power=1 / sympy.Float(largest) if largest > 1e-12 else S.Infinity)
