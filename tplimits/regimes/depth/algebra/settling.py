"""Coefficients in a form in which zero is seen to be zero: what numbers that are rounded leave of a sum is none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.numbers.in_digits import valued
from tplimits.program.nodes.rounding import is_rounded
from tplimits.program.parts import by_products, remembered
from tplimits.regimes.depth.algebra.tables import LARGE, TOLERANCE, exactly

#: less than this does not show in a limit
_SEEN = 1e-6
#: the largest numbers that stand in front of products of constants, which may be of any size themselves
Sizes = tuple[tuple[Expr, float], ...]


def added(coefficients: Sequence[Expr]) -> Expr:
    """A sum of numbers times constants, of which rounding alone is zero."""
    total = sympy.Add(*coefficients)
    if len(coefficients) < 2:
        return total
    sizes = largest(map(sizes_of, coefficients))
    if not sizes:
        return S.Zero if sympy.expand(total) == 0 else total
    found, lost = settled(total, sizes, 0.0)
    for rest, numbers in by_products(lost).items() if lost != 0 else ():
        left, size = abs(valued(sympy.Add(*numbers), {})), dict(sizes)[rest]
        if left > _SEEN:
            raise NoLimitError(
                f"of a sum of numbers of size {size:.3g} {left:.3g} is left, too little to be told from rounding and "
                "too much to be left out. Write the difference that is meant."
            )
    return found


def largest(several: Iterable[Sizes]) -> Sizes:
    """The sizes of a sum of coefficients."""
    found: dict[Expr, float] = {}
    for rest, size in itertools.chain(*several):
        found[rest] = max(size, found.get(rest, 0.0))
    return tuple(found.items())


def settle(expr: Expr, sizes: Sizes) -> Expr:
    """A coefficient in a form in which zero is seen to be zero, beside numbers of the sizes of what it is made of."""
    return settled(expr, sizes, 0.0)[0]


@remembered(1 << 12)
def settled(expr: Expr, sizes: Sizes, least: float) -> tuple[Expr, Expr]:
    """The same, and what of it is taken for rounding; less than that of `least` is none."""
    expanded, lost = _snapped(sympy.expand(expr), dict(sizes), least)
    return _simple(expanded), lost


def _simple(expanded: Expr) -> Expr:
    """An expanded coefficient in a form in which zero is seen to be zero."""
    if expanded.has(sympy.sin, sympy.cos):  # cos² + sin² = 1: residual branches on a circle
        expanded = sympy.expand(sympy.trigsimp(expanded))
    if not expanded.has(sympy.Pow) or (expanded.is_number and not expanded.is_Add):
        return expanded
    # a rational function has a normal form, in which zero is 0
    together = sympy.factor_terms(sympy.cancel(sympy.together(expanded))) if _is_rational(expanded) else expanded
    if _is_rational(expanded):
        return together
    # no normal form decides zero with roots in it: the shorter of two forms, which is 0 where either is
    simple = sympy.simplify(expanded)
    return min((expanded, simple), key=sympy.count_ops)


def _snapped(expr: Expr, sizes: Mapping[Expr, float], least: float) -> tuple[Expr, Expr]:
    """A sum with numbers that come from arrays replaced by the simple fractions they are close to, or left out."""
    groups = by_products(expr)
    rounded = {rest for rest, numbers in groups.items() if any(map(_is_rounded, numbers))}
    if not rounded:
        return expr, S.Zero
    found, lost = [], []
    for rest, numbers in groups.items():
        value = valued(sympy.Add(*numbers), {})
        # relative to the largest number before the same constants: what cancels leaves digits of the data, not of the
        # coefficient; a number cancels with the function that it is a value of
        size = max(least, sizes.get(rest, 0.0), *(abs(valued(number, {})) for number in numbers))
        if math.isinf(size):
            raise OverflowError("a coefficient is beyond the doubles")
        if rest in rounded and not value.imag:
            whole = sympy.Add(*numbers)
            # of a large sum a double holds no small part
            kept = whole.is_Rational and abs(value) > LARGE
            simple = exactly(Fraction(int(whole.p), int(whole.q)) if kept else value.real)
            numbers = [sympy.Rational(simple.numerator, simple.denominator)]
        if abs(value) > TOLERANCE * size:
            found.append(sympy.Add(*numbers) * rest)
        elif abs(value) > TOLERANCE:
            lost.append(sympy.Add(*numbers) * rest)
    return sympy.Add(*found), sympy.Add(*lost)


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
