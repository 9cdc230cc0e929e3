"""The variables of a derivation: copies, names of long factors, and what is correlated with what."""

from __future__ import annotations

import pytest
import sympy
from sympy import DiracDelta

from tplimits.law.gaussians import CopySource, Gaussians, HatSource, InitialSource
from tplimits.law.hypotheses.tails import Growth, Tail
from tplimits.law.means import BoxMean

VIEW, OTHER = (0, (), False), (0, (), True)


@pytest.fixture
def law():
    """Two entries, three images: two under one matrix."""
    gaussians = Gaussians()
    gaussians.all = [
        gaussians.add("x", InitialSource(0, ())),
        gaussians.add("y", InitialSource(1, ())),
        *(
            gaussians.add(name, HatSource(view, use))
            for name, view, use in (("a", VIEW, 0), ("b", VIEW, 1), ("c", OTHER, 0))
        ),
    ]
    gaussians.hat_covariance = lambda one, other: sympy.Rational(2 + one.use + other.use)
    return gaussians


def test_covariances_of_the_three_kinds(law):
    x, _, a, b, c = law.all
    assert [law.covariance(x, s) for s in law.all] == [1, 0, 0, 0, 0]
    assert [law.covariance(a, s) for s in law.all] == [0, 0, 2, 3, 0]
    assert [law.covariance(c, s) for s in law.all] == [0, 0, 0, 0, 2]
    assert law.covariance(b, b) == 4
    families = [law.family(s) for s in law.all]
    assert families[2] == families[3] and len(set(families)) == 4


def test_copies_in_a_box_have_the_law_of_their_originals_and_are_independent_of_all_else(law):
    x, _, a, b, _ = law.all
    one, two = law.new_box(), law.new_box()
    copied, symbols = law.copied(x * a + sympy.sin(b), one)
    assert symbols == {law.copy(s, one) for s in (x, a, b)} and copied.free_symbols == symbols
    assert law.covariance(law.copy(a, one), law.copy(b, one)) == 3
    assert law.covariance(law.copy(a, one), law.copy(b, two)) == 0 == law.covariance(law.copy(a, one), a)
    assert law.copy(a, one) is law.copy(a, one)
    again = law.copy(law.copy(a, one), two)
    assert law.covariance(again, again) == 2 and law.covariance(again, law.copy(a, two)) == 0
    assert law.family(law.copy(a, one)) == law.family(law.copy(x, one)) != law.family(law.copy(a, two))
    own = law.add("z", CopySource(sympy.Symbol("nobody"), one))
    assert law.covariance(own, own) == 1 and law.covariance(own, law.copy(a, one)) == 0


def test_names_are_never_taken_twice(law):
    again = law.add("x", InitialSource(5, ()))
    assert again != law.all[0] and law.covariance(again, law.all[0]) == 0
    names = {law.name_long("x", sympy.sin(law.all[0])), law.name_long("x", sympy.cos(law.all[0])), again, law.all[0]}
    assert len(names) == 4


def test_long_factors_depend_on_what_their_definitions_hold(law):
    x, y, a, b, _ = law.all
    box = law.new_box()
    inner = BoxMean(sympy.sin(law.copy(a, box) * y), law.copy(a, box))
    name = law.name_long("f", sympy.exp(x) + inner)
    over = law.name_long("g", sympy.sin(name) * b)
    assert law.of(over + 1) == {x, y, b, law.copy(a, box)}
    assert law.of(inner) == {y} and law.everywhere(inner) == {y, law.copy(a, box)}
    assert law.is_random(name) and law.is_random(x) and not law.is_random(sympy.Symbol("constant"))
    assert law.definition(name) == sympy.exp(x) + inner and law.definition(x) is None
    assert name not in law and x in law


def test_deltas_and_jumps_are_seen_through_names(law):
    x, *_ = law.all
    smooth = law.name_long("s", sympy.sin(x))
    jump = law.name_long("j", sympy.sign(x))
    delta = law.name_long("d", x * DiracDelta(x))
    over = [law.name_long("o", sympy.sin(x) * s) for s in (smooth, jump, delta)]
    assert [law.has_delta(s) for s in (smooth, jump, delta, *over)] == [False, False, True, False, False, True]
    assert [law.long[s].has_jump for s in (smooth, jump, delta, *over)] == [False, True, True, False, True, True]
    assert law.has_delta(DiracDelta(x) + 1) and law.has_delta(2 * delta + x) and not law.has_delta(x + jump)
    slope = law.name_derivative(jump, x, lambda: 2 * DiracDelta(x))
    assert law.long[slope].has_jump and law.definition(slope) == 2 * DiracDelta(x)
    assert law.of(slope) == law.of(jump)


def test_copies_of_long_factors_keep_sign_and_growth(law):
    x, *_ = law.all
    tail = Tail(Growth.BOUNDED)
    known, plain = law.name_long("k", sympy.exp(x), nonnegative=True), law.name_long("p", sympy.sin(x))
    law.growths[known] = tail
    box = law.new_box()
    copied, symbols = law.copied(known * plain, box)
    assert symbols == {law.copy(x, box)}
    first, second = sorted(copied.free_symbols, key=lambda s: s.name)
    assert (first.is_nonnegative, second.is_nonnegative) == (True, None)
    assert law.growths[first] is tail and second not in law.growths
    assert law.definition(first) == sympy.exp(law.copy(x, box))
    assert law.copied(known * plain, box)[0] == copied
