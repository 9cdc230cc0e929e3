"""Members of families of weights told apart: what a value is odd in, read at other indices."""

import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes.entries import axis_symbol
from tplimits.regimes.classification.derivation.cosets import Coset
from tplimits.regimes.classification.derivation.parity import Parities

HEAD, TAP = axis_symbol("head"), axis_symbol("tap")


@tp.program
def families(
    x: tp.Vector, K: tp.Matrix["n", "n", "head"], Q: tp.Matrix["n", "n", "tap"], V: tp.Matrix["n", "n", "head"]
):
    return tp.avg((K @ x) * (Q @ x) * (V @ x))


@pytest.mark.parametrize(
    ("before", "swap", "after"),
    [
        ("K", {HEAD: 1}, "K1"),
        ("V", {HEAD: 1}, "V1"),
        ("Q", {HEAD: 1}, "Q"),
        ("xKQV", {HEAD: 1}, "xK1QV1"),
        ("xKQV", {TAP: 0}, "xKQ0V"),
        ("KV", {TAP: 0}, "KV"),
        ("KQ", {HEAD: 0, TAP: 1}, "K0Q1"),
    ],
)
def test_terms_at_other_indices_are_odd_in_other_members(before, swap, after):
    found = Parities(families, apart=frozenset(map(families.position, "KQV")))
    axes = {"K": HEAD, "Q": TAP, "V": HEAD}

    def bits(names):
        total, left = 0, names
        while left:
            name, left = left[0], left[1:]
            index, left = (sympy.Integer(left[0]), left[1:]) if left[:1].isdigit() else (axes.get(name), left)
            total ^= found._bit(families.position(name), () if index is None else (index,))
        return total

    swapped = {axis: sympy.Integer(value) for axis, value in swap.items()}
    assert found._placed(Coset(bits(before), ()), swapped) == Coset(bits(after), ())
    assert found._placed(Coset(0, (bits(before),)), swapped) == Coset(0, (bits(after),))
