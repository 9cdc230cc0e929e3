"""Between which numbers sums of powers of the width lie: 1/√n − 1/n is never negative, 1/n − 1/√n never positive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sympy
from sympy import Expr, Rational, S

from tplimits.program.nodes.entries import N
from tplimits.program.parts import remembered

#: 1/n^(1/q), from 0 for wide networks to 1 for a single neuron
_SMALL = sympy.Symbol("ε", positive=True)


def by_what_they_multiply(terms: Iterable[Expr]) -> dict[Expr, dict[Rational, Expr]]:
    """What a sum is made of, each beside the powers of n before it and their coefficients.

    >>> x = sympy.Symbol("x", real=True)
    >>> by_what_they_multiply([x, 3 * x / N, -1 / sympy.sqrt(N)])
    {x: {0: 1, -1: 3}, 1: {-1/2: -1}}
    """
    sums: dict[Expr, dict[Rational, Expr]] = {}
    for term in terms:
        number, power, rest = S.One, S.Zero, []
        for factor in sympy.Mul.make_args(term):
            base, exponent = factor.as_base_exp() if factor.is_Pow else (factor, S.One)
            if base == N and exponent.is_Rational:
                power += exponent
            elif factor.is_number:
                number *= factor
            else:
                rest.append(factor)
        own = sums.setdefault(sympy.Mul(*rest), {})
        own[power] = own.get(power, S.Zero) + number
    return sums


def range_of_powers(powers: Mapping[Rational, Expr]) -> tuple[Expr, Expr]:
    """The least and the largest value of Σ c nᵏ over n ≥ 1, which are taken at an end or where its slope is 0.

    >>> range_of_powers({-S.Half: S.One, -S.One: -S.One})
    (0, 1/4)
    """
    return _range(tuple(sorted(powers.items())))


@remembered(1 << 12)
def _range(powers: tuple[tuple[Rational, Expr], ...]) -> tuple[Expr, Expr]:
    q = sympy.ilcm(1, *(k.q for k, _ in powers))
    total = sympy.Add(*(c * _SMALL ** int(-k * q) for k, c in powers))
    lowest = min(int(-k * q) for k, _ in powers)
    slope = sympy.Poly(sympy.expand(total.diff(_SMALL) * _SMALL ** (1 - lowest)), _SMALL)
    exact = slope.domain.is_ZZ or slope.domain.is_QQ
    places = () if slope.is_ground else slope.real_roots() if exact else slope.nroots()
    inside = [p for p in places if p.is_real and 0 < p < 1]
    ends = [total.xreplace({_SMALL: S.One}), sympy.limit(total, _SMALL, 0, "+")]
    values = [v if v.is_Rational else v.evalf(20) for v in (*ends, *(total.xreplace({_SMALL: p}) for p in inside))]
    return min(values), max(values)
