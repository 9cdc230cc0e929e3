"""What is odd or even piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.functions import leaky_relu, maximum, minimum, relu, step, where
from tplimits.program.nodes.parity import parity

x, c = sympy.symbols("x c", real=True)
FUNCTIONS = {
    "clip": (minimum(maximum(x, -1), 1), -1),
    "clip on a scale": (minimum(maximum(x / c, -1), 1), -1),
    "from above first": (maximum(minimum(x, 1), -1), -1),
    "bends in bends": (1 - relu(2 - relu(1 + x)), -1),
    "two bends": (relu(x + 1) - relu(x - 1) - 1, -1),
    "not at the ends": (relu(x + 1) - relu(x - 2) - 1, None),
    "a hat": (relu(1 - sympy.Abs(x)), 1),
    "a hat of bends": (relu(x + 1) - 2 * relu(x) + relu(x - 1), 1),
    "its shoulder": (relu(x + 1) - 2 * relu(x) + relu(x - 1) + relu(x - 3) / 1000, None),
    "a leaky clip": (leaky_relu(x + 1, 3) - leaky_relu(x - 1, 3) - x, None),
    "a branch": (where(x**2 - 2, sympy.sign(x) * sympy.sin(sympy.sqrt(2)), sympy.sin(x)), -1),
    "one branch turned": (where(x**2 - 2, sympy.sin(sympy.sqrt(2)), sympy.sin(x)), None),
    "steps": (step(x - 1) - step(-x - 1), -1),
    "steps, not where they jump": (step(x - 1) + step(x + 1) - 1, None),
    "a step": (step(x) - sympy.Rational(1, 2), None),
    # SymPy separates no roots over fields like that of √15: these had ended in its NotImplementedError
    "a smaller slope": (minimum(sympy.sqrt(15) * sympy.Abs(x) / 4, sympy.Abs(x)), 1),
    "a slope of a root of 15": (maximum(minimum(sympy.sqrt(15) * x, 1), -1), -1),
    "an irrational parabola": (maximum(x**2 - sympy.sqrt(15), x), None),
    "ends of two scales": (minimum(maximum(x / c, -1), c), None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_odd_and_even_functions_of_pieces(name):
    function, expected = FUNCTIONS[name]
    assert parity(function, x) == expected
    at = np.concatenate([np.linspace(-5, 5, 401), [np.sqrt(2.0)]])  # kinks at whole numbers among them
    here, there = (np.broadcast_to(evaluate(function, {x: s * at, c: 1.7}), at.shape) for s in (1, -1))
    same = {sign: np.allclose(there, sign * here, atol=1e-12) for sign in (1, -1)}
    assert same == {sign: sign == expected for sign in (1, -1)}
