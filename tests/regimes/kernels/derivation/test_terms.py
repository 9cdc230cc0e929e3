"""Sums of products of kets, sums over finite axes, polynomials of Gaussians."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from sympy import Integer, S, Symbol

import tplimits as tp
from tplimits.law.closed_forms.isserlis import gaussian_polynomial
from tplimits.program.nodes.entries import AxisSum, Kron, axis_symbol, free_indices, size_symbol
from tplimits.regimes.kernels.derivation.infinite import leading, with_infinite_axes
from tplimits.regimes.kernels.derivation.leaves import Data, Datum, Of, Slot, TableEntry, sided
from tplimits.regimes.kernels.derivation.terms import Term, at, axis_sum, collapsed, freshened, summed, terms

a, b, c = (axis_symbol(x) for x in "abc")
A, B = Symbol("a"), Symbol("b")
ONE = Integer(1)


def ket(node, *indices):
    return Of(Integer(node), ONE, *indices)


def test_products_are_multiplied_out_with_indices_of_their_own():
    found = terms(AxisSum(ket(0, a), a, A) ** 2)
    assert len(found) == 1 and len(found[0].bounds) == 2
    (i, j) = (bound for bound, _ in found[0].bounds)
    assert i != j and set(found[0].factors) == {ket(0, i), ket(0, j)}


def test_a_ket_that_multiplies_every_addend_stands_in_front():
    u, v = ket(0), ket(1)
    found = terms(v / (1 + u**2) - 2 * u**2 * v / (1 + u**2) ** 2)
    assert len(found) == 1
    assert found[0].factors[0] == v and not found[0].factors[1].has(v)


def test_a_function_of_one_set_of_kets_stays_whole():
    u = ket(0)
    assert len(terms(u * sympy.exp(u) + sympy.exp(u))) == 1
    assert len(terms(2 * u + ket(1))) == 2


def test_putting_an_index_in_place_captures_nothing():
    inside = AxisSum(ket(0, a) * ket(1, b), a, A)
    moved = at(inside, {b: a})
    assert free_indices(moved) == {a} and moved.bound != a
    assert free_indices(freshened(inside)) == {b}


def test_sums_over_equal_indices_are_done():
    f = Symbol("f")
    weight = Kron(a, b) * Symbol("w")
    assert collapsed(weight * f, [(b, B)]) == Symbol("w") * f
    assert summed(f, [(a, A)]) == f * AxisSum(S.One, a, A)
    assert axis_sum(f * ket(0, a), a, A) == f * AxisSum(ket(0, a), a, A)


def test_sums_over_infinitely_many_members():
    size = size_symbol("head")
    assert leading(size ** Integer(-1) * size, size, S.One, str) == 1
    assert leading(1 / sympy.sqrt(size), size, S.One, str) == 0
    with pytest.raises(tp.NoLimitError, match="grows like"):
        leading(sympy.sqrt(size), size, S.One, str)
    with pytest.raises(tp.NoLimitError, match=r"like \|head\| times mean; divide"):
        leading(size, size, Symbol("mean"), str)


def test_pairs_of_members_meet_and_do_not():
    """Σ_hh′ x_h x_h′/H: members that meet give E x², pairs that do not vanish with their means."""
    head, other, axis = axis_symbol("head"), axis_symbol("head′1"), Symbol("head")
    size = size_symbol("head")
    term = Term(1 / size, ((head, axis), (other, axis)), (ket(0, head), ket(0, other)))

    def expect(factors):
        return Symbol("square") if len(set(factors)) == 1 else S.Zero

    assert [t.coefficient * value for t, value in with_infinite_axes(term, frozenset({"head"}), expect, str)] == [
        Symbol("square")
    ]


@pytest.mark.parametrize("powers", [(2, 2), (3, 1), (4, 2), (1, 2), (0, 6)])
def test_polynomials_of_gaussians(powers):
    """By Gauss–Hermite rules, which are exact for polynomials."""
    x, y = sympy.symbols("x y", real=True)
    p, q, r = 1.5, 0.75, -0.6
    law = {(x, x): p, (x, y): r, (y, x): r, (y, y): q}
    nodes, weights = np.polynomial.hermite_e.hermegauss(10)
    weights = weights / math.sqrt(2 * math.pi)
    first = math.sqrt(p) * nodes[:, None]
    second = r / math.sqrt(p) * nodes[:, None] + math.sqrt(q - r * r / p) * nodes[None]
    wanted = (weights[:, None] * weights[None] * first ** powers[0] * second ** powers[1]).sum()
    found = gaussian_polynomial(x ** powers[0] * y ** powers[1], [x, y], law)
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert gaussian_polynomial(sympy.tanh(x), [x], law) is None
    assert gaussian_polynomial(sympy.Integer(1), [], law) == 1  # E sign(b)²


def test_inputs_exchanged_twice_are_as_they_were():
    """Sides of data and of tables alone: which table, which axes and which input data are read stay."""
    expr = TableEntry(Integer(5), ONE, Integer(2), a, b) * Data(Integer(3), ONE, a) + Data(Integer(4), Integer(2), b)
    other = TableEntry(Integer(5), Integer(2), ONE, a, b) * Data(Integer(3), Integer(2), a) + Data(Integer(4), ONE, b)
    assert sided(expr, 2, 1) == other and sided(other, 2, 1) == expr
    assert sided(expr, 1, 2) == expr
    index = Datum(Integer(7), ONE, a)
    read = TableEntry(Integer(5), ONE, Integer(2), index, b)
    assert sided(read, 2, 1) == TableEntry(Integer(5), Integer(2), ONE, Datum(Integer(7), Integer(2), a), b)
    assert sided(read, 2, 2) == TableEntry(Integer(5), Integer(2), Integer(2), Datum(Integer(7), Integer(2), a), b)


@pytest.mark.parametrize("neighbour", [[1, 2, -1], [1, 0, 2], [2, 2, 0]])
def test_products_of_neighbours_keep_the_index_of_their_sum(neighbour):
    """Σ_i z_i z_f(i): brackets hold δ(f(i), j) δ(i, f(j)), which an index has to fulfil that no sum may lose."""

    @tp.network
    def net(ξ: tp.Input["at"], u: tp.Vector, b: tp.Vector["at"], v: tp.Vector):
        z = (u * ξ) ** 2 + b
        return v * tp.sum(z * z.take(at=neighbour, axes=("at",)), over="at")

    X = np.array([[1.0, -0.5, 2.0], [0.5, 1.5, -1.0]])
    pairs = np.array([[float(i == j) for i in range(3)] for j in neighbour])
    Q = (pairs + pairs.T) / 2
    # over b: E (m + b)ᵀQ(m + b) (m′ + b)ᵀQ(m′ + b) with m = g² ξ²; then over g, with E g⁴ = 3 and E g⁸ = 105
    sides = np.einsum("ai,ij,aj->a", X**2, Q, X**2)
    expected = 105 * np.outer(sides, sides) + 3 * np.trace(Q) * np.add.outer(sides, sides) + np.trace(Q) ** 2
    expected += 2 * np.trace(Q @ Q) + 12 * (X**2 @ Q @ Q @ X.T**2)
    assert np.allclose(tp.derive(net, tp.Kernels()).evaluate(X).nngp, expected, rtol=1e-12)


def test_places_of_vectors_stand_in_front_of_quotients():
    """(y₁ f + y₂ g)/p is linear in the places y₁, y₂: its mean is theirs times means; f and g of one place stay one."""
    u, first, second = ket(0), Slot(Integer(2), ONE), Slot(Integer(3), ONE)
    divided = (first * u**2 + second * u - first * (1 + u**3)) / (1 + u**3)
    found = terms(divided)
    assert all(not t.bounds and not any(f.has(Slot) for f in t.factors) for t in found)
    assert {t.coefficient for t in found} == {first, second}
    assert sympy.simplify(sympy.Add(*(t.coefficient * sympy.Mul(*t.factors) for t in found)) - divided) == 0
    assert len(found) == 2
