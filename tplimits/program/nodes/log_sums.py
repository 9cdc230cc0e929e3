"""Sums of exponentials in logarithms and below quotients, where doubles overflow although the function does not.

    log(c₁ eᵘ + c₂ eᵛ) = log c₁ + u + softplus(v − u + log c₂/c₁),   (c₁ eᵘ + c₂ eᵛ)^(−p) = exp(−p log(c₁ eᵘ + c₂ eᵛ))
    log(σ(u)ᵏ w) = log w − k softplus(−u),   log((1 − σ(u))ᵏ w) = log w − k softplus(u)

for c₁, c₂ > 0, and one after another of more terms.  So log(1 + exp(200x − 240)) is its argument far out, a tanh
that is written out is ±1 there, and log(1 − σ(u)) is −u where σ(u) is 1 to a double.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import sympy
from sympy import Expr, S

from tplimits.program.nodes.functions import sigmoid, softplus
from tplimits.program.parts import addends, holds, rebuilt, remembered

#: terms of products of numerators that are written out
_MOST = 16
#: functions that leave the range of doubles, or lose their digits at an end of theirs
_STEEP = (sympy.exp, sympy.cosh, sigmoid)
#: c eᵘ
_Term = tuple[Expr, Expr]


@remembered(1 << 12)
def without_overflow(expr: Expr) -> Expr:
    """An expression with all of its sums of exponentials that are in logarithms or divided by as softplus.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> without_overflow(y * sympy.log(3 + sympy.exp(x)) + 1 / (1 + sympy.exp(-x)))
    y*(softplus(x - log(3)) + log(3)) + exp(-softplus(-x))
    >>> without_overflow(sympy.log(y * sigmoid(x) ** 2))
    log(y) - 2*softplus(-x)
    """
    if not expr.args or not holds(expr, *_STEEP):
        return expr
    # from the outside in: a quotient is read before what it is divided by
    expr = in_doubles(expr)
    return rebuilt(expr, [without_overflow(a) for a in expr.args]) if expr.args else expr


def in_doubles(node: Expr) -> Expr:
    """A logarithm, a power or a product written so that it does not overflow; the arguments inside are left."""
    if not isinstance(node, (sympy.log, sympy.Pow, sympy.Mul)) or not holds(node, *_STEEP):
        return node
    return _in_doubles(node)


@remembered(1 << 12)
def _in_doubles(node: Expr) -> Expr:
    if isinstance(node, sympy.log):
        terms = _exponentials(node.args[0])
        return _log_product(node) if terms is None else _log_sum(terms)
    shift, rest = S.Zero, []
    for factor in sympy.Mul.make_args(node):
        base, power = factor.as_base_exp()
        below = _exponentials(base) if power.is_number and power.is_negative else None
        if below is None:
            rest.append(factor)
        else:
            shift += power * _log_sum(below)
    return node if shift == 0 else _times_exp(rest, shift)


def _times_exp(factors: Sequence[Expr], shift: Expr) -> Expr:
    """A product times e^shift, which the exponentials among its factors take in: e^(u − log(1 + eᵘ)) is not ∞·0."""
    powers = {f: f.args if f.is_Pow else (f, S.One) for f in factors}
    whole = {
        f: b for f, (b, k) in powers.items() if k.is_Integer and k.is_positive and any(u != 0 for _, u in _terms(b))
    }
    sums = [_terms(base) for f, base in whole.items() for _ in range(int(powers[f][1]))]
    if math.prod(map(len, sums)) > _MOST:
        whole, sums = {}, []
    others = sympy.Mul(*(f for f in factors if f not in whole))
    parts = (tuple(zip(*chosen, strict=True)) or ((), ()) for chosen in itertools.product(*sums))
    return others * sympy.Add(*(sympy.Mul(*c, sympy.exp(_at_sight(sympy.Add(*u, shift)))) for c, u in parts))


def _at_sight(exponent: Expr) -> Expr:
    """An exponent whose bound from above is seen: w − softplus(w) is −softplus(−w)."""
    for term in sympy.Add.make_args(exponent):
        number, fold = term.as_coeff_Mul()
        if isinstance(fold, softplus) and number.is_negative:
            w, rest = fold.args[0], exponent - term
            for k in (-number, S.One):
                left = sympy.Add(*addends(rest - k * w))
                if _moving(left) < _moving(rest):
                    return _at_sight(left) + number * fold + k * (fold - softplus(-w))
    return exponent


def _moving(expr: Expr) -> int:
    return sum(not term.is_number for term in sympy.Add.make_args(expr))


def _exponentials(base: Expr) -> list[_Term] | None:
    """A sum of positive multiples of exponentials, not of numbers alone; None for others."""
    terms = _terms(base)
    positive = all(c.is_number and c.is_positive for c, _ in terms)
    return terms if positive and len(terms) > 1 and any(not u.is_number for _, u in terms) else None


def _terms(expr: Expr) -> list[_Term]:
    """(c, u) of a sum of multiples of eᵘ."""
    found: list[_Term] = []
    for term in sympy.Add.make_args(expr):
        exponents, factors = [S.Zero], [S.One]
        twice: Expr | None = None
        for f in sympy.Mul.make_args(term):
            if isinstance(f, sympy.exp):
                exponents.append(f.args[0])
            elif isinstance(f, (sympy.cosh, sympy.sinh)) and twice is None:
                twice = f
            else:
                factors.append(f)
        c, u = sympy.Mul(*factors), sympy.Add(*exponents)
        if twice is None:
            found.append((c, u))
        else:
            v, sign = twice.args[0], 1 if isinstance(twice, sympy.cosh) else -1
            found += [(c / 2, u + v), (sign * c / 2, u - v)]
    return found


def _log_sum(terms: Sequence[_Term]) -> Expr:
    # from a constant on: log(1 + eᵘ) is softplus(u), and no other function
    first, *others = sorted(terms, key=lambda term: not term[1].is_number)
    total = sympy.log(first[0]) + first[1]
    for c, u in others:
        total = total + softplus(u - total + sympy.log(c))
    return total


def _log_product(node: Expr) -> Expr:
    """A logarithm with what is positive in its product, σ(u)ᵏ and (1 − σ(u))ᵏ, outside of it."""
    outside, inside = S.Zero, []
    for factor in sympy.Mul.make_args(node.args[0]):
        base, power = factor.as_base_exp()
        number, rest = base.as_coeff_Add()
        if isinstance(base, sigmoid):
            outside -= power * softplus(-base.args[0])
        elif number == 1 and isinstance(-rest, sigmoid):
            outside -= power * softplus((-rest).args[0])
        else:
            inside.append(factor)
    return node if outside == 0 else sympy.log(sympy.Mul(*inside)) + outside
