"""Names of bound indices: equal sums are equal, and no index takes the name of another one."""

from __future__ import annotations

import sympy

from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import AxisSum, axis_symbol, free_indices

f, g = sympy.Function("f"), sympy.Function("g")
i, j, k, one, two = (axis_symbol(f"head{mark}") for mark in ("", "′7", "′9", "′1", "′2"))
HEAD = sympy.Symbol("head")


def total(summand, bound):
    return AxisSum(summand, bound, HEAD)


def test_an_outer_index_that_is_called_as_the_inner_one_will_be_stays_another_one():
    """Σ_i g(i) Σ_j f(j, i) by any names, its outer index being called what the inner one becomes among them."""
    written = [total(g(a) * total(f(b, a), b), a) for a, b in ((one, j), (j, one), (two, one), (one, two), (j, k))]
    assert len(set(map(canonical_bound_axes, written))) == 1
    # what a capture made of it
    assert canonical_bound_axes(written[0]) != canonical_bound_axes(total(g(j), j) * total(f(k, k), k))


def test_three_sums():
    written = [total(total(total(f(a, b, c), a), b), c) for a, b, c in ((one, two, j), (two, one, j), (k, one, two))]
    assert len(set(map(canonical_bound_axes, written))) == 1


def test_a_free_index_of_that_name_is_not_bound():
    expr = total(f(j, one), j)
    found = canonical_bound_axes(expr)
    assert free_indices(found) == {one} and found == canonical_bound_axes(total(f(k, one), k))
    assert found.xreplace({one: i}) == total(f(found.bound, i), found.bound)
