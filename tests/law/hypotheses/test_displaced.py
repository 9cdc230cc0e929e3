"""Powers of n that vanish, which displace what a pole reads."""

from __future__ import annotations

import pytest
import sympy
from sympy import Rational, Symbol

from tplimits.law.hypotheses.displaced import shifts
from tplimits.program.nodes.entries import width_symbol

x = Symbol("x", real=True)
n = width_symbol("n")
ROOT, WHOLE = n ** Rational(-1, 2), 1 / n


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (x + 1, set()),
        (x + ROOT, {ROOT}),
        (1 / (x + 3 * ROOT) - WHOLE * x, {ROOT, WHOLE}),
        (x * sympy.sqrt(n), set()),
        (x / (1 + sympy.sqrt(n)), set()),
        (x + ROOT + n, set()),  # n itself does not vanish
        (x + ROOT + sympy.tanh(n), set()),
        (x + n**x, set()),
    ],
    ids=str,
)
def test_powers_of_the_width_that_vanish(body, found):
    assert set(shifts(body)) == found
