"""Coefficients in a form in which zero is seen to be zero: what numbers that are rounded leave of a sum is none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import sympy
from sympy import Expr, S

from tplimits.numbers.in_digits import valued
from tplimits.program.nodes.rounding import is_rounded
from tplimits.program.parts import by_products, remembered
from tplimits.regimes.depth.algebra.tables import TOLERANCE, exactly

#: the largest numbers that stand in front of products of constants, which may be of any size themselves
Sizes = tuple[tuple[Expr, float], ...]


def added(coefficients: Sequence[Expr]) -> Expr:
    """A sum of numbers times constants, of which rounding alone is zero."""
    total = sympy.Add(*coefficients)
    if len(coefficients) < 2:
        return total
    sizes = largest(map(sizes_of, coefficients))
    return settle(total, sizes) if sizes else S.Zero if sympy.expand(total) == 0 else total


def largest(several: Iterable[Sizes]) -> Sizes:
    """The sizes of a sum of coefficients."""
    found: dict[Expr, float] = {}
    for rest, size in itertools.chain(*several):
        found[rest] = max(size, found.get(rest, 0.0))
    return tuple(found.items())


@remembered(1 << 12)
def settle(expr: Expr, sizes: Sizes, least: float = 0.0) -> Expr:
    """A coefficient in a form in which zero is seen to be zero, beside numbers of the sizes of what it is made of."""
    expanded = _snapped(sympy.expand(expr), dict(sizes), least)
    if expanded.has(sympy.sin, sympy.cos):  # cos² + sin² = 1: residual branches on a circle
        expanded = sympy.expand(sympy.trigsimp(expanded))
    # an exact fraction that came through arithmetic of doubles
    if expanded.is_Float:
        return sympy.nsimplify(expanded)
    if not expanded.has(sympy.Pow) or (expanded.is_number and not expanded.is_Add):
        return expanded
    # a rational function has a normal form, in which zero is 0
    together = sympy.factor_terms(sympy.cancel(sympy.together(expanded))) if _is_rational(expanded) else expanded
    if _is_rational(expanded):
        return together
    # no normal form decides zero with roots in it: the shorter of two forms, which is 0 where either is
    simple = sympy.simplify(expanded)
    return min((expanded, simple), key=sympy.count_ops)


def _snapped(expr: Expr, sizes: Mapping[Expr, float], least: float) -> Expr:
    """A sum with numbers that come from arrays replaced by the simple fractions they are close to, or by zero."""
    groups = by_products(expr)
    rounded = {rest for rest, numbers in groups.items() if any(map(_is_rounded, numbers))}
    if not rounded:
        return expr
    found = []
    for rest, numbers in groups.items():
        value = valued(sympy.Add(*numbers), {})
        # relative to the largest number before the same constants: what cancels leaves digits of the data, not of the
        # coefficient; a number cancels with the function that it is a value of
        size = max(least, sizes.get(rest, 0.0), *(abs(valued(number, {})) for number in numbers))
        if math.isinf(size):
            raise OverflowError("a coefficient is beyond the doubles")
        if rest in rounded and not value.imag:
            simple = exactly(value.real)
            numbers = [sympy.Rational(simple.numerator, simple.denominator)]
        if abs(value) > TOLERANCE * size:
            found.append(sympy.Add(*numbers) * rest)
    return sympy.Add(*found)


@remembered(1 << 12)
def sizes_of(expr: Expr) -> Sizes:
    """The largest numbers in a sum, if one of them comes from arrays: what is exact has none."""
    groups = by_products(sympy.expand(expr))
    if not any(map(_is_rounded, itertools.chain(*groups.values()))):
        return ()
    return tuple((rest, max(abs(valued(number, {})) for number in numbers)) for rest, numbers in groups.items())


def _is_rounded(number: Expr) -> bool:
    """Whether a number may come from arrays."""
    fraction = number.as_coeff_Mul()[0]
    return not fraction.is_Rational or is_rounded(fraction)


def _is_rational(expr: Expr) -> bool:
    return all(p.exp.is_Integer for p in expr.atoms(sympy.Pow) if p.free_symbols)
