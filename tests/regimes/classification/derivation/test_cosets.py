"""Sets of weights that terms are odd in, against all members; indices that differ, against all of their values."""

from fractions import Fraction
from functools import reduce
from itertools import combinations, product
from operator import xor
from types import SimpleNamespace

import numpy as np
import pytest
import sympy

from tplimits.program.nodes.entries import Lookup
from tplimits.program.nodes.functions import relu
from tplimits.regimes.classification.derivation.cosets import (
    INFINITY,
    MOST,
    Coset,
    Parity,
    both,
    fewer,
    hull_of,
    reduced,
    somewhere,
    span,
)
from tplimits.regimes.classification.derivation.parity import Parities

BITS = 5
X, i, j, k = sympy.Symbol("x", real=True), *sympy.symbols("i j k", integer=True)


def sums(vectors):
    """All sums of some sets of bits, with how many were added."""
    return {
        (reduce(xor, chosen, 0), len(chosen)) for n in range(len(vectors) + 1) for chosen in combinations(vectors, n)
    }


def members(coset):
    return {coset.shift ^ s for s, _ in sums(coset.basis)}


def drawn(rng, most=2):
    return Coset(
        int(rng.integers(1 << BITS)), span(int(b) for b in rng.integers(1, 1 << BITS, rng.integers(0, most + 1)))
    )


def parity(rng, order=0, rest=INFINITY, many=3):
    return Parity(frozenset(drawn(rng, 1) for _ in range(rng.integers(1, many))), Fraction(order), rest)


def union(found):
    return set().union(*map(members, found.cosets))


@pytest.mark.parametrize("seed", range(8))
def test_spans_are_all_sums(seed):
    rng = np.random.default_rng(seed)
    vectors = [int(v) for v in rng.integers(0, 1 << BITS, 4)]
    basis, every = span(vectors), {s for s, _ in sums(vectors)}
    assert {s for s, _ in sums(basis)} == every and 2 ** len(basis) == len(every)
    for v in range(1 << BITS):
        assert (reduced(v, basis) == 0) == (v in every)
        assert {reduced(v ^ b, basis) for b in every} == {reduced(v, basis)}
    assert Coset(vectors[0], basis).used == reduce(lambda a, b: a | b, members(Coset(vectors[0], basis)))


@pytest.mark.parametrize("seed", range(12))
def test_products_and_hulls_are_those_of_members(seed):
    rng = np.random.default_rng(seed)
    one, other, third = (drawn(rng) for _ in range(3))
    assert members(one.times(other)) == {a ^ b for a, b in product(members(one), members(other))}
    every = members(one) | members(other) | members(third)
    odd = {s for s, n in sums(sorted(every)[:12]) if n % 2}
    hull = hull_of([one, other, third])
    assert members(hull) >= every | odd and 2 ** len(hull.basis) == len(
        {a ^ b ^ c for a, b, c in product(odd, repeat=3)}
    )
    many = frozenset(drawn(rng, 1) for _ in range(12))
    held = fewer(many)
    assert len(held) <= MOST and set().union(*map(members, held)) >= set().union(*map(members, many))
    pieces = frozenset(Coset(reduced(a, one.basis), one.basis) for a in members(other))
    (whole,) = fewer(pieces)  # parts of one coset are one, exactly
    assert members(whole) == set().union(*map(members, pieces))


@pytest.mark.parametrize("seed", range(8))
def test_functions_have_the_terms_of_their_series(seed):
    """Products of an odd number of terms, of an even one, and of any number."""
    rng = np.random.default_rng(seed)
    a, b = parity(rng), parity(rng)
    assert union(a.times(b)) == {x ^ y for x, y in product(union(a), union(b))}
    assert union(a.plus(b)) == union(a) | union(b)
    every = sums(sorted(union(a)))
    odd, even = ({s for s, n in every if n % 2 == r} for r in (1, 0))
    assert (
        union(a.power(sympy.Integer(3))) == odd == union(a.function(sympy.tanh(X))) == union(a.power(sympy.Integer(-1)))
    )
    assert (
        union(a.power(sympy.Integer(2))) == even == union(a.function(sympy.cos(X))) == union(a.function(sympy.Abs(X)))
    )
    assert (
        union(a.power(sympy.Rational(3, 2)))
        == odd | even
        == union(a.function(relu(X)))
        == union(a.function(sympy.exp(X)))
    )
    assert a.power(sympy.Integer(1)) == a


def of(order, rest=INFINITY, *shifts):
    return Parity(frozenset(map(Coset, shifts or (1,))), Fraction(order), rest)


def test_orders_by_hand():
    """x = n^(−1) a + O(n^(−3)), y = n^(−2) b + O(n^(−5/2)), and what grows."""
    x, y, z = of(1, 3, 1), of(2, Fraction(5, 2), 2), of(-1, 1, 4)
    zero = Parity(frozenset())
    orders = {
        "sum": (x.plus(y), 1, 2, {1}), "other way": (y.plus(x), 1, 2, {1}), "alike": (x.plus(of(1, 2, 8)), 1, 2, {1, 8}),  # noqa: E501
        "known": (x.plus(of(4, INFINITY, 8)), 1, 3, {1}), "product": (x.times(y), 3, Fraction(7, 2), {3}),
        "square": (y.power(sympy.Integer(2)), 4, Fraction(9, 2), {0}),
        "inverse": (z.power(sympy.Integer(-1)), 1, 3, {4}), "root": (x.power(sympy.Rational(1, 2)), Fraction(1, 2), Fraction(5, 2), {0, 1}),  # noqa: E501
        "tanh": (x.function(sympy.tanh(X)), 1, 3, {1}), "saturated": (z.function(sympy.tanh(X)), 0, 0, {4}),
        "cos": (x.function(sympy.cos(X)), 0, 1, {0}), "abs": (z.function(sympy.Abs(X)), -1, 1, {0}),
        "exp": (x.function(sympy.exp(X)), 0, 1, {0}), "relu": (x.function(relu(X)), 1, 3, {0, 1}),
        "zero": (zero.plus(x), 1, 3, {1}), "one": (zero.power(sympy.Integer(-1)), 0, INFINITY, {0}),
        "cos 0": (zero.function(sympy.cos(X)), 0, INFINITY, {0}),
    }  # fmt: skip
    assert {n: (p.order, p.rest, union(p)) for n, (p, *_) in orders.items()} == {
        n: tuple(e) for n, (_, *e) in orders.items()
    }
    for nothing in (
        zero.plus(zero),
        zero.power(sympy.Integer(2)),
        zero.function(sympy.tanh(X)),
        zero.function(relu(X)),
    ):
        assert not nothing.cosets
    assert (x.gap, x.used, of(0, INFINITY, 1, 4).used) == (2, 1, 5)


def test_terms_that_are_somewhere():
    here, there = frozenset([(i, frozenset([0, 1]))]), frozenset([(i, frozenset([1, 2])), (j, frozenset([5]))])
    assert both(here, there) == frozenset([(i, frozenset([1])), (j, frozenset([5]))])
    nowhere = Coset(3, (), frozenset([(i, frozenset())]))
    assert somewhere([Coset(1), nowhere], 1.0) == {Coset(1)} == somewhere([Coset(1), nowhere], INFINITY)
    assert somewhere([nowhere], INFINITY) == frozenset() and somewhere([nowhere], 1.0) == {Coset(3)}
    hull = hull_of([Coset(1, (), here), Coset(1, (), there)])
    assert hull == Coset(1, (), frozenset([(i, frozenset([0, 1, 2]))]))
    assert Coset(1, (), here).times(Coset(2, (), there)).where == both(here, there)
    assert of(0, INFINITY, 1).power(sympy.Integer(-1)).cosets == {Coset(1)}
    kept = Parity(frozenset([Coset(1, (), here)]))
    assert [next(iter(kept.power(sympy.Integer(e)).cosets)).where for e in (1, 2, 3, -1)] == [
        here,
        here,
        here,
        frozenset(),
    ]


TABLES = [np.array([1, 2, 0]), np.array([0, 1, 2]), np.array([2, 2, -1]), np.array([1, 2, 0, 1]), np.array([0, 2, 0])]


def test_indices_that_differ_are_never_the_same():
    """Two indices are said to differ only where they do at all values of what they are of; −1 is no entry."""
    parities = object.__new__(Parities)
    parities.program = SimpleNamespace(tables=[SimpleNamespace(values=t) for t in TABLES])
    ranges = {i: frozenset([0, 1]), j: frozenset([2])}
    tables = range(len(TABLES))
    written = [
        sympy.Integer(0),
        sympy.Integer(2),
        i,
        j,
        k,
        *(Lookup(sympy.Integer(t), x) for t in tables for x in (i, j, k)),
    ]
    values = {i: (0, 1), j: (2,), k: (0, 1, 2)}

    def of_all(one, other):
        """Pairs of their values that are entries."""
        names = sorted({x for e in (one, other) for x in e.free_symbols}, key=str)
        for at in product(*(values[x] for x in names)):
            known = dict(zip(names, at, strict=True))
            pair = [
                e if e.is_Integer else known[e] if e.is_Symbol else TABLES[e.table][known[e.indices[0]]]
                for e in (one, other)
            ]
            if min(pair) >= 0:
                yield int(pair[0]), int(pair[1])

    for one, other in product(written, repeat=2):
        found = parities._differ(one, other, ranges)
        never = all(a != b for a, b in of_all(one, other))
        assert never or not found, (one, other)
        bounded = all(e.free_symbols <= {i, j} for e in (one, other))
        apart = {a for a, _ in of_all(one, other)}.isdisjoint({b for _, b in of_all(one, other)})
        if bounded and apart and one.free_symbols != other.free_symbols:
            assert found, (one, other)
    assert parities._differ(Lookup(sympy.Integer(0), k), Lookup(sympy.Integer(1), k), ranges)
    assert not parities._differ(Lookup(sympy.Integer(0), k), Lookup(sympy.Integer(3), k), ranges)
