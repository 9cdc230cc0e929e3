"""Terms of values as sets of the weights that they are odd in: the arithmetic behind `parity`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import or_

import sympy
from sympy import Expr

from tplimits.regimes.classification.derivation.sizes import HOMOGENEOUS, LINEAR_AT_BOTH_ENDS

_ODD = (sympy.tanh, sympy.erf, sympy.sin, sympy.atan, sympy.asinh, sympy.sinh, sympy.sign)
_EVEN = (sympy.Abs, sympy.cos, sympy.cosh)
#: unions of more cosets than this are replaced by one that holds them
MOST = 6


@dataclass(frozen=True)
class Coset:
    """a + V, with a and a basis of V as sets of bits."""

    shift: int = 0
    basis: tuple[int, ...] = ()

    @property
    def used(self) -> int:
        """The bits that some member has."""
        return reduce(or_, self.basis, self.shift)

    def times(self, other: Coset) -> Coset:
        """All sums of two members."""
        basis = span((*self.basis, *other.basis))
        return Coset(reduced(self.shift ^ other.shift, basis), basis)


@dataclass(frozen=True)
class Parity:
    """The terms of a value that are of its order n^(−order): a union of cosets, empty for 0."""

    cosets: frozenset[Coset] = frozenset([Coset()])
    order: Fraction = Fraction(0)

    @classmethod
    def of(cls, cosets: Iterable[Coset], order: Fraction = Fraction(0)) -> Parity:
        """A union, or one coset that holds it where it has many parts."""
        found = cls(frozenset(cosets), order)
        return found if len(found.cosets) <= MOST else cls(frozenset([found.hull]), order)

    @property
    def used(self) -> int:
        """The bits that some term has."""
        return reduce(or_, (c.used for c in self.cosets), 0)

    @property
    def hull(self) -> Coset:
        """The smallest coset that holds all terms."""
        first, *others = sorted(self.cosets, key=lambda c: (c.shift, c.basis))
        vectors = [b for c in self.cosets for b in c.basis] + [first.shift ^ c.shift for c in others]
        basis = span(vectors)
        return Coset(reduced(first.shift, basis), basis)

    def plus(self, other: Parity) -> Parity:
        """The terms of a sum: those of the larger summand."""
        if not self.cosets or (other.cosets and other.order < self.order):
            return other
        if not other.cosets or self.order < other.order:
            return self
        return Parity.of(self.cosets | other.cosets, self.order)

    def times(self, other: Parity) -> Parity:
        """The terms of a product."""
        return Parity.of((a.times(b) for a in self.cosets for b in other.cosets), self.order + other.order)

    def power(self, e: sympy.Rational) -> Parity:
        """The terms of a power."""
        if not self.cosets:
            return self if e > 0 else Parity()
        order = self.order * Fraction(int(e.p), int(e.q))
        if e == 1:
            return self
        if e.is_Integer:
            return Parity(frozenset([self.hull if e.is_odd else Coset(0, self.hull.basis)]), order)
        return Parity(frozenset([spanned(self.hull)]), order)

    def function(self, node: Expr) -> Parity:
        """The terms of a function, by its parity and by what it does at 0."""
        if not self.cosets:
            return Parity() if not isinstance(node, (*_ODD, *HOMOGENEOUS, *LINEAR_AT_BOTH_ENDS)) else self
        if isinstance(node, _ODD):
            return Parity(frozenset([self.hull]), max(self.order, Fraction(0)))
        if isinstance(node, _EVEN):
            order = self.order if isinstance(node, sympy.Abs) else Fraction(0)
            return Parity(frozenset([Coset(0, self.hull.basis)]), order)
        linear = isinstance(node, (*HOMOGENEOUS, *LINEAR_AT_BOTH_ENDS))
        if not linear and self.order > 0:
            return Parity()  # its value at 0
        return Parity(frozenset([spanned(self.hull)]), self.order if linear else Fraction(0))


def spanned(hull: Coset) -> Coset:
    """The terms of an arbitrary function."""
    return Coset(0, span((*hull.basis, hull.shift)))


def span(vectors: Iterable[int]) -> tuple[int, ...]:
    """A basis of what sets of bits span.

    >>> span((0b011, 0b110, 0b101))
    (5, 3)
    """
    found: list[int] = []
    for v in vectors:
        v = reduced(v, found)
        if v:
            found = sorted([*found, v], reverse=True)
    return tuple(found)


def reduced(vector: int, basis: Iterable[int]) -> int:
    """What is left of a set of bits beside a basis: 0 if the basis spans it."""
    for b in basis:  # the largest first, so that what is taken away is never put back
        vector = min(vector, vector ^ b)
    return vector
