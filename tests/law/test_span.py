"""Linear dependence as the rank of matrices tells it."""

from __future__ import annotations

import random

import pytest
import sympy
from sympy import Rational

from tplimits.law.span import Span, negligible

ATOMS = sympy.symbols("a:5")


def drawn(seed):
    """Vectors of few entries, and combinations of earlier ones among them."""
    rng, vectors = random.Random(seed), []
    for _ in range(9):
        if vectors and rng.random() < 0.4:
            total: dict = {}
            for old in rng.sample(vectors, min(2, len(vectors))):
                factor = Rational(rng.choice([-2, 1, 3]), rng.choice([1, 2]))
                total = {a: total.get(a, 0) + factor * old.get(a, 0) for a in ATOMS}
        else:
            total = {a: Rational(rng.choice([-3, -1, 2, 5])) for a in rng.sample(ATOMS, rng.choice([1, 2, 3]))}
        vectors.append({a: c for a, c in total.items() if c != 0} or {ATOMS[0]: Rational(1)})
    return vectors


@pytest.mark.parametrize("seed", range(12))
def test_what_depends_on_earlier_vectors_is_their_combination(seed):
    span, vectors, rank = Span(), drawn(seed), 0
    for name, vector in enumerate(vectors):
        found = span.add(vector, name)
        matrix = sympy.Matrix([[v.get(a, 0) for a in ATOMS] for v in vectors[: name + 1]])
        before, rank = rank, matrix.rank()
        assert (found is None) == (rank > before)
        if found is not None:
            assert name not in found and 0 not in found.values()
            assert {a: sum(c * vectors[i].get(a, 0) for i, c in found.items()) for a in ATOMS} == {
                a: vector.get(a, 0) for a in ATOMS
            }
    assert rank < len(vectors)


def test_what_rounding_leaves_is_nothing_where_constants_are_data():
    a, b = ATOMS[:2]
    for tolerance, dependent in ((0.0, False), (1e-9, True)):
        span = Span(tolerance)
        assert span.add({a: sympy.S(1), b: sympy.S(2)}, 0) is None
        assert (span.add({a: sympy.S(1), b: 2 + Rational(1, 10**12)}, 1) is not None) is dependent
        assert span.judged is dependent
    assert negligible(sympy.S.Zero, 0.0) and not negligible(Rational(1, 10**12), 0.0)
    assert negligible(-Rational(1, 10**12), 1e-9) and not negligible(-Rational(1, 10), 1e-9) and not negligible(a, 1e-9)


def test_exact_dependence_needs_no_judging():
    span, (a, b) = Span(1e-9), ATOMS[:2]
    span.add({a: sympy.S(1), b: sympy.S(2)}, 0)
    assert span.add({a: sympy.S(3), b: sympy.S(6)}, 1) == {0: 3} and not span.judged
