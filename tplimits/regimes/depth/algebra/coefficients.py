"""Coefficients: numbers of a program as powers of the widths times constants, and constants as polynomials.

>>> from tplimits.program.nodes.entries import N
>>> g = sympy.Symbol("γ", real=True)
>>> split = Splitter((Dimension("n", N, True, True),), 2)
>>> sorted((s.order, str(s.coeff), s.powers) for s in split((1 + g / sympy.sqrt(N)) ** 2).parts)
[(0, '1', (0,)), (1, '2*γ', (-1,)), (2, 'γ**2', (-2,))]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Rational, S, Symbol
from sympy.polys.rings import PolyElement, ring

from tplimits.regimes.depth.algebra.laurent import MeanSeries, expansion
from tplimits.regimes.depth.algebra.products import EPS, Dimension, Poly, ProductTerm

#: E|g| = √(2/π) of a standard normal, kept as one generator
ROOT = sympy.sqrt(2 / sympy.pi)


class Part(NamedTuple):
    """coeff · Π dimension^(power/2), of size ε^order."""

    coeff: Expr
    powers: tuple[int, ...]
    order: int


class Parts(NamedTuple):
    """A number as a sum of parts; those above `cut` are missing (None: none are)."""

    parts: tuple[Part, ...]
    cut: int | None


@dataclass
class Splitter:
    """Writes a number of the program as a sum of parts, up to ε^limit where the sum does not end."""

    dimensions: tuple[Dimension, ...]
    limit: int
    mean: MeanSeries | None = None
    _known: dict[Expr, Parts] = field(default_factory=dict)

    def __call__(self, expr: Expr) -> Parts:
        if expr not in self._known:
            self._known[expr] = self._split(expr)
        return self._known[expr]

    def _split(self, expr: Expr) -> Parts:
        swap: dict[Expr, Expr] = {}
        ratio: dict[Symbol, int] = {}
        for number, dimension in enumerate(self.dimensions):
            if dimension.size.is_Symbol:
                symbol = Symbol(f"size {number}", positive=True)
                ratio[symbol] = number
                # a width that grows is a ratio times n: in ε all that is large is a power of one variable
                swap[dimension.size] = EPS**-2 if number == 0 else symbol * EPS**-2 if dimension.grows else symbol
        small, cut = expansion(expr.xreplace(swap), self.limit, self.mean)
        found: dict[tuple[tuple[int, ...], int], Expr] = {}
        for term in sympy.Add.make_args(small):
            rest, powers, order = S.One, [0] * len(self.dimensions), 0
            for base, exponent in term.as_powers_dict().items():
                if base == EPS:
                    order = int(exponent)
                elif base in ratio and (2 * exponent).is_Integer:
                    powers[ratio[base]] = int(2 * exponent)
                else:
                    rest *= base**exponent
            growing = sum(p for p, d in zip(powers, self.dimensions, strict=True) if d.width and d.grows)
            # powers of n make up what is left of the order: ratios stand as powers of their own widths
            powers[0] = -order - growing
            key = (tuple(powers), order)
            found[key] = found.get(key, S.Zero) + rest
        back = {symbol: self._size(number) for symbol, number in ratio.items()}
        parts = tuple(Part(c.xreplace(back), p, o) for (p, o), c in found.items() if c != 0)
        return Parts(parts, cut)

    def _size(self, number: int) -> Expr:
        dimension = self.dimensions[number]
        return ratio_symbol(dimension.name) if dimension.grows else dimension.size


def ratio_symbol(width: str) -> Symbol:
    """A width over n."""
    return Symbol(f"({width}/n)", positive=True)


class Sized:
    """A polynomial with the sizes of what its terms are made of: of sums of rounded numbers, rounding may be left.

    Sizes are logarithms: powers of numbers leave the doubles before their products come back.
    """

    __slots__ = ("sizes", "value")  # thousands are made in a derivation

    def __init__(self, value: Any, sizes: dict[Any, float]) -> None:
        self.value, self.sizes = value, sizes

    def __mul__(self, other: Any) -> Sized:
        if not isinstance(other, (Sized, PolyElement)):
            if not other:
                return Sized(self.value * other, {})
            size = _logarithm(other)
            return Sized(self.value * other, {term: known + size for term, known in self.sizes.items()})
        if isinstance(other, PolyElement):
            other = sized(other)
        found: dict[Any, float] = {}
        for one, size in self.sizes.items():
            for two, beside in other.sizes.items():
                term = self.value.ring.monomial_mul(one, two)
                found[term] = max(size + beside, found.get(term, -math.inf))
        return Sized(self.value * other.value, found)

    __rmul__ = __mul__

    def __add__(self, other: Sized) -> Sized:
        found = dict(self.sizes)
        for term, size in other.sizes.items():
            found[term] = max(size, found.get(term, -math.inf))
        return Sized(self.value + other.value, found)

    def __bool__(self) -> bool:
        return bool(self.value)


def _logarithm(number: Any) -> float:
    return math.log2(abs(int(number.numerator))) - math.log2(int(number.denominator))


def sized(value: PolyElement) -> Sized:
    """A polynomial that is made of nothing but itself."""
    return Sized(value, {term: _logarithm(number) for term, number in value.terms()})


@dataclass
class Ring:
    """Polynomials over the rationals in whatever the coefficients of one derivation are made of."""

    expressions: Iterable[Expr]

    def __post_init__(self) -> None:
        generators: dict[Expr, None] = {ROOT: None}
        for expr in self.expressions:
            for _, factors in _monomials(expr):
                generators.update(dict.fromkeys(base for base, _ in factors))
        self.generators = tuple(generators)
        self.place = {g: i for i, g in enumerate(self.generators)}
        self.ring = ring([f"c{i}" for i in range(len(self.generators))], sympy.QQ)[0]
        self._known: dict[Expr, Sized] = {}
        self.one = sized(self.ring.one)

    def element(self, expr: Expr) -> Sized:
        """An expression among those the ring was made for, as a polynomial."""
        if expr not in self._known:
            terms: dict[tuple[int, ...], Any] = {}
            for number, factors in _monomials(expr):
                exponents = [0] * len(self.generators)
                for base, exponent in factors:
                    exponents[self.place[base]] += exponent
                key = tuple(exponents)
                terms[key] = terms.get(key, sympy.QQ(0)) + sympy.QQ(number.p, number.q)
            self._known[expr] = sized(self.ring.from_dict(terms))
        return self._known[expr]

    def poly(self, poly: Poly) -> Poly:
        """A sum with its coefficients in the ring."""
        terms = (ProductTerm(self.element(t.coeff), t.powers, t.pert, t.factors) for t in poly.terms)
        return Poly(tuple(terms), poly.cut)

    @property
    def root(self) -> Any:
        """√(2/π)"""
        return self.ring.gens[0]

    def rational(self, number: Fraction | Rational) -> Any:
        """A fraction as a coefficient."""
        return sympy.QQ(number.numerator, number.denominator)

    def expr(self, element: Any) -> Expr:
        """A polynomial as an expression."""
        value = element.value if isinstance(element, Sized) else element
        if not isinstance(value, PolyElement):
            return sympy.sympify(value)
        numbers = ((term, Rational(int(number.numerator), int(number.denominator))) for term, number in value.terms())
        return sympy.Add(*(number * self._product(term) for term, number in numbers))

    def _product(self, exponents: tuple[int, ...]) -> Expr:
        return sympy.Mul(*(g**e for g, e in zip(self.generators, exponents, strict=True) if e))

    def sizes(self, element: Any) -> Iterator[Expr]:
        """What the terms of a coefficient are made of."""
        found = element if isinstance(element, Sized) else sized(self.ring.one)
        return (sympy.Float(2) ** sympy.Float(size) * self._product(term) for term, size in found.sizes.items())


def _monomials(expr: Expr) -> list[tuple[Rational, list[tuple[Expr, int]]]]:
    """An expression as a sum of numbers times positive integer powers of generators."""
    found = []
    for term in sympy.Add.make_args(sympy.expand(expr)):
        number, factors = S.One, []
        for base, exponent in term.as_powers_dict().items():
            if base.is_Rational and exponent.is_Integer:
                number *= base**exponent
            elif exponent.is_Rational:
                # c^(−3/2) is (c^(−1/2))³: negative and broken powers as generators of their own, exponents stay whole
                unit = Rational(1 if exponent > 0 else -1, exponent.q)
                factors.append((base**unit, abs(int(exponent.p))))
            else:
                # a symbol in the exponent: the power as a whole is one generator
                factors.append((base**exponent, 1))
        found.append((number, factors))
    return found
