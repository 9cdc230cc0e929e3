"""Powers of n in the terms of a sum."""

from __future__ import annotations

import pytest
import sympy
from sympy import Rational, S

from tplimits.program.nodes.entries import N
from tplimits.program.nodes.scale import powers_of_n

x = sympy.Symbol("x", real=True)


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        (x, (0,)),
        (x * N + 2 * sympy.sqrt(N), (Rational(1, 2), 1)),
        (x**2 / N - sympy.sqrt(N) * N * x, (-1, Rational(3, 2))),
        (x * sympy.exp(N), ()),
        (x + sympy.tanh(x * N), ()),
        (N**x, ()),
        (x + N ** sympy.sqrt(2), ()),
        (S.Zero, ()),
    ],
    ids=str,
)
def test_they_are_those_of_all_terms_or_none(expr, found):
    assert set(powers_of_n(expr)) == set(found)
