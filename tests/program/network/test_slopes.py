"""Tangents of bodies with sums over axes, against SymPy's derivative along ε of the whole body."""

from __future__ import annotations

import pytest
import sympy
from sympy import Integer, Symbol

from tplimits.program.network import tangent
from tplimits.program.nodes.entries import OWN, AxisSum, Entry, Kron, axis_symbol
from tplimits.program.nodes.functions import relu

PLACE, OTHER, AXIS = axis_symbol("i"), axis_symbol("j"), Symbol("i")
C = Symbol("c", real=True)


def entry(source: int, *indices) -> Entry:
    return Entry(Integer(source), OWN, *indices)


def total(summand) -> AxisSum:
    return AxisSum(summand, PLACE, AXIS)


X, Y, Z = entry(0, PLACE), entry(1, OTHER), entry(2, PLACE)
BODIES = [
    C * total(X * Z),
    Y * total(2 * X + X * Z) - total(Z),
    sympy.tanh(total(X * Z)) * Y + X,
    sympy.sqrt(1 + total(X**2)) / (1 + Y**2),
    total(Kron(PLACE, OTHER) * relu(X)) * total(Z) ** 2,
    total(X) * total(X),
]


def along(body, moving, many: int):
    """d/dε of the body with every moving entry e → e + ε ė, at ε = 0."""
    ε = Symbol("ε", real=True)
    moved = body.xreplace({e: e + ε * entry(e.source + many, *e.indices) for e in moving})
    return moved.diff(ε).xreplace({ε: Integer(0)})


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("moving", [(X,), (X, Y, Z), (Z, Y)])
def test_slopes_are_derivatives(body, moving):
    found, wanted = tangent._slope(body, moving, 3), along(body, moving, 3)
    assert found == wanted or sympy.expand(found - wanted) == 0


def test_a_forgotten_factor_is_another_tangent():
    body = Y * total(X * Z)
    assert tangent._slope(body, (X, Z), 3) != along(body, (X,), 3)
