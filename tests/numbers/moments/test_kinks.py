"""Where functions of one variable have kinks and turn."""

from __future__ import annotations

import pytest
import sympy

from tplimits.numbers.moments.kinks import kinked
from tplimits.program.nodes import functions as heads

x = sympy.Symbol("x", real=True)


@pytest.mark.parametrize("searched", [16.0, 32.0, 64.0, 512.0])
@pytest.mark.parametrize("f", [1 - sympy.tanh(x) ** 2, 1 - sympy.erf(x) ** 2, sympy.tanh(x) ** 2 / (1 + sympy.exp(-x))])
def test_where_doubles_end_nothing_turns(f, searched):
    """1 − tanh² is 0 in doubles beyond 19: an edge there is at another z for each variance, at four times the work."""
    assert kinked(f, x, searched).kinks == ()


@pytest.mark.parametrize("searched", [16.0, 64.0])
def test_a_turn_beside_a_stretch_of_zeros_is_kept(searched):
    assert kinked(1 - sympy.tanh(20 * x - 60) ** 2, x, searched).kinks == (3.0,)
    assert kinked(heads.relu(x - 1), x, searched).kinks == (1.0,)
