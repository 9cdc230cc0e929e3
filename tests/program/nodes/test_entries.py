"""Index notation inside SymPy."""

import sympy
from sympy import Integer, Symbol

from tplimits.program.nodes import functions
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    Entry,
    GaussMean,
    Lookup,
    N,
    axis_symbol,
    bound_axis_symbol,
    constant_symbol,
    entries,
    free_axes,
    normal_symbol,
    size_symbol,
    slot_symbol,
    width_symbol,
)

a, b = axis_symbol("a"), axis_symbol("b")


def x(*indices):
    return Entry(Integer(0), OWN, *indices)


def total(summand, index, name):
    return AxisSum(summand, index, Symbol(name))


def test_symbols_of_one_name_and_different_kinds_are_different():
    kinds = (axis_symbol, width_symbol, constant_symbol, lambda name: Symbol(name))
    assert len({kind("k") for kind in kinds}) == 4
    assert width_symbol("n") == N and str(size_symbol("a")) == "|a|"
    assert slot_symbol(1) != axis_symbol("β1") and axis_symbol("α") != OWN
    assert constant_symbol("g") != normal_symbol(1)


def test_leaves_are_real_and_never_numbers():
    for leaf in (x(a), ArrayEntry(Integer(0), Integer(1)), Entry(Integer(0), NO_NEURON)):
        assert leaf.is_real and leaf.is_commutative and not leaf.is_number
        assert functions.relu(leaf).func is functions.relu
        assert sympy.sqrt(leaf**2) == sympy.Abs(leaf)
    assert Lookup(Integer(0), Integer(1)).is_integer


def test_parts_of_leaves():
    entry = Entry(Integer(3), slot_symbol(2), a, Integer(1))
    assert (entry.source, entry.neuron, entry.indices) == (3, slot_symbol(2), (a, 1))
    assert ArrayEntry(Integer(1), a, b).array == 1 and Lookup(Integer(2), a).table == 2
    assert total(x(a), a, "token").axis == "token"


def test_free_axes_and_symbols_know_what_is_bound():
    γ, g = constant_symbol("γ"), normal_symbol(1)
    assert free_axes(total(x(a, b), a, "a")) == (b,)
    assert free_axes(x(Lookup(Integer(0), a), Integer(2)) * ArrayEntry(Integer(0), b)) == (a, b)
    assert free_axes(x(a, b)) == (a, b)
    assert total(γ * x(a), a, "a").free_symbols == {γ, OWN}
    assert GaussMean(γ * g, g).free_symbols == {γ}


def test_derivatives_go_inside():
    γ, g = constant_symbol("γ"), normal_symbol(1)
    assert GaussMean(sympy.sin(γ * g), g).diff(γ) == GaussMean(g * sympy.cos(γ * g), g)
    assert total(γ**2 * x(a), a, "a").diff(γ) == total(2 * γ * x(a), a, "a")


def test_entries_in_a_reproducible_order():
    first, second = Entry(Integer(0), OWN), Entry(Integer(1), OWN)
    assert entries(second * sympy.tanh(first) + first) == (first, second)


def test_equal_sums_have_equal_canonical_forms():
    def nested(i, j):
        inner = total(x(i, j), i, "a")
        return total(inner**2 * x(j, j) + inner, j, "a")

    c, d, e, f = (bound_axis_symbol("a", number) for number in (5, 9, 11, 12))
    one, two = canonical_bound_axes(nested(c, d)), canonical_bound_axes(nested(e, f))
    assert one == two and canonical_bound_axes(one) == one
    assert free_axes(one) == ()
    same = total(x(c), c, "a") - total(x(d), d, "a")
    assert canonical_bound_axes(same) == 0
    assert canonical_bound_axes(x(a)) == x(a)
