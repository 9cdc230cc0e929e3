"""Terms of values as sets of the weights that they are odd in: the arithmetic behind `parity`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import combinations
from operator import or_
from typing import Any

import sympy
from sympy import Expr

from tplimits.program.nodes.properties import EVEN, ODD
from tplimits.regimes.classification.derivation.sizes import HOMOGENEOUS, LINEAR_AT_BOTH_ENDS

#: unions of more cosets than this are replaced by fewer that hold them
MOST = 6
INFINITY = float("inf")
#: the values of an index; for some indices, those that they have
Values = frozenset[int]
Where = frozenset[tuple[Expr, Values]]


@dataclass(frozen=True)
class Coset:
    """a + V, with a and a basis of V as sets of bits; `where` are the values of indices outside of which it is 0."""

    shift: int = 0
    basis: tuple[int, ...] = ()
    where: Where = frozenset()

    @property
    def used(self) -> int:
        """The bits that some member has."""
        return reduce(or_, self.basis, self.shift)

    def times(self, other: Coset) -> Coset:
        """All sums of two members."""
        basis = span((*self.basis, *other.basis))
        return Coset(reduced(self.shift ^ other.shift, basis), basis, both(self.where, other.where))


@dataclass(frozen=True)
class Parity:
    """The terms of a value that are of its order n^(−order): a union of cosets, empty for 0.

    Terms that are smaller are of the order n^(−rest) at most.
    """

    cosets: frozenset[Coset] = frozenset([Coset()])
    order: Fraction = Fraction(0)
    rest: Fraction | float = INFINITY

    @classmethod
    def of(cls, cosets: Iterable[Coset], order: Fraction, rest: Fraction | float) -> Parity:
        """A union, or fewer cosets that hold it where it has many parts."""
        found = frozenset(cosets)
        # every product of unions multiplies their numbers; a larger set of terms only says less, never what is wrong
        return cls(found if len(found) <= MOST else fewer(found), order, rest)

    @property
    def gap(self) -> Fraction | float:
        """How much smaller the smaller terms are, as a power of 1/n."""
        return self.rest - self.order

    @property
    def used(self) -> int:
        """The bits that some term has."""
        return reduce(or_, (c.used for c in self.cosets), 0)

    @property
    def hull(self) -> Coset:
        """The smallest coset that holds all terms."""
        return hull_of(self.cosets)

    def plus(self, other: Parity) -> Parity:
        """The terms of a sum: those of the larger summand."""
        if not self.cosets or not other.cosets:
            # 0 is no term of a sum
            return self if self.cosets else other
        first, second = (self, other) if self.order <= other.order else (other, self)
        rest = min(self.rest, other.rest)
        if first.order < second.order:
            # the smaller summand is among the terms that are not told apart
            return replace(first, rest=min(rest, second.order))
        return Parity.of(self.cosets | other.cosets, self.order, rest)

    def times(self, other: Parity) -> Parity:
        """The terms of a product."""
        # what is next in a product is the smaller terms of one factor times the largest of the other
        order, gap = self.order + other.order, min(self.gap, other.gap)
        return Parity.of(somewhere((a.times(b) for a in self.cosets for b in other.cosets), gap), order, order + gap)

    def power(self, e: sympy.Rational) -> Parity:
        """The terms of a power."""
        if not self.cosets:
            # 0 to a negative power is infinite: nothing is known of its sign
            return self if e > 0 else Parity()
        order = self.order * Fraction(int(e.p), int(e.q))
        if e == 1:
            return self
        # a root of a sum is a function like any other: of terms a + V any combination may come
        hull = spanned(self.hull)
        if e.is_Integer:
            hull = self.hull if e.is_odd else Coset(0, self.hull.basis, self.hull.where)
        if e < 0:
            # outside of `where` a reciprocal is not 0 but infinite
            hull = replace(hull, where=frozenset())
        return Parity(frozenset([hull]), order, order + self.gap)

    def function(self, node: Expr) -> Parity:
        """The terms of a function, by its parity and by what it does at 0."""
        linear = isinstance(node, (*HOMOGENEOUS, *LINEAR_AT_BOTH_ENDS))
        if not self.cosets:
            return self if linear or isinstance(node, ODD) else Parity()
        if isinstance(node, ODD):
            # odd functions keep the sign of a sum only where all terms change it together: of the hull
            return self._with(self.hull, max(self.order, Fraction(0)))
        if isinstance(node, EVEN):
            return self._with(Coset(0, self.hull.basis), self.order if isinstance(node, sympy.Abs) else Fraction(0))
        if not linear and self.order > 0:
            return Parity(rest=self.order)  # its value at 0
        return self._with(spanned(self.hull), self.order if linear else Fraction(0))

    def _with(self, coset: Coset, order: Fraction) -> Parity:
        """Terms of a function that is of another order than its argument, where smaller ones are not told apart."""
        rest = self.rest if order == self.order else max(order, self.order)
        return Parity(frozenset([coset]), order, rest)


def _order(c: Coset) -> tuple[Any, ...]:
    return c.shift, c.basis, sorted((str(i), sorted(values)) for i, values in c.where)


def hull_of(cosets: Iterable[Coset]) -> Coset:
    """The smallest coset that holds others."""
    first, *others = sorted(cosets, key=_order)
    # a coset a + V holds another b + U just when V holds U and a + b
    basis = span([b for c in (first, *others) for b in c.basis] + [first.shift ^ c.shift for c in others])
    every = [dict(c.where) for c in (first, *others)]
    # a condition holds for the union if each of them has one
    kept = {i for i in every[0] if all(i in w for w in every)}
    return Coset(
        reduced(first.shift, basis), basis, frozenset((i, frozenset().union(*(w[i] for w in every))) for i in kept)
    )


def both(one: Where, other: Where) -> Where:
    """The values of indices that are in two conditions."""
    found: dict[Expr, Values] = dict(one)
    for index, values in other:
        found[index] = found[index] & values if index in found else values
    return frozenset(found.items())


def somewhere(cosets: Iterable[Coset], gap: Fraction | float) -> frozenset[Coset]:
    """Those that are not 0 everywhere; where none is left beside smaller terms, whose parity is not known, all."""
    every = frozenset(cosets)
    found = frozenset(c for c in every if all(values for _, values in c.where))
    if not found and gap < INFINITY:
        # smaller terms may be anywhere, so that conditions of the larger ones say nothing
        return frozenset(replace(c, where=frozenset()) for c in every)
    return found


@lru_cache(maxsize=4096)
def fewer(cosets: frozenset[Coset]) -> frozenset[Coset]:
    """At most `MOST` cosets that hold others, in pairs that add the least: a + V and b + V are one coset, exactly.

    Terms at different values of indices, as queries and values in one matrix, are kept apart where others are left.
    """

    left = sorted(cosets, key=_order)
    pairs = {pair: hull_of(pair) for pair in combinations(left, 2)}

    def added(pair: tuple[Coset, Coset]) -> tuple[bool, int]:
        # how many terms a union gains that neither part has; none for a + V and b + V with V ∪ (a + b)
        return pair[0].where != pair[1].where, 2 ** len(pairs[pair].basis) - sum(2 ** len(c.basis) for c in pair)

    while pairs:
        pair = min(pairs, key=added)
        if added(pair) > (False, 0) and len(left) <= MOST:
            break
        hull = pairs[pair]
        left = [c for c in left if c not in (*pair, hull)]
        # the hull may be one of the pair, or stand in the list already
        pairs = {p: held for p, held in pairs.items() if not {*pair, hull} & {*p}}
        pairs |= {(c, hull): hull_of((c, hull)) for c in left}
        left.append(hull)
    return frozenset(left)


def spanned(hull: Coset) -> Coset:
    """The terms of an arbitrary function."""
    return Coset(0, span((*hull.basis, hull.shift)))


def span(vectors: Iterable[int]) -> tuple[int, ...]:
    """A basis of what sets of bits span."""
    found: list[int] = []
    for v in vectors:
        v = reduced(v, found)
        if v:
            # descending: `reduced` clears the leading bit of each in turn
            found = sorted([*found, v], reverse=True)
    return tuple(found)


def reduced(vector: int, basis: Iterable[int]) -> int:
    """What is left of a set of bits beside a basis: 0 if the basis spans it."""
    for b in basis:  # the largest first, so that what is taken away is never put back
        vector = min(vector, vector ^ b)
    return vector
