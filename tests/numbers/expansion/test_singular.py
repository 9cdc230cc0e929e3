"""Exponentials, poles and roots of vectors whose arguments are bounded: expanded, since every moment exists."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from expanded import expansion_of_one_layer, of_one_layer

import tplimits as tp

asinh, cosh = (tp.elementwise(head) for head in (sympy.asinh, sympy.cosh))
KINKS = [k * np.pi for k in range(-3, 4)]
FUNCTIONS = {
    "exponential of asinh": (lambda h: tp.exp(asinh(tp.tanh(h))), lambda x: np.exp(np.arcsinh(np.tanh(x)))),
    "exponential of a modulus": (lambda h: tp.exp(tp.abs(tp.tanh(h))), lambda x: np.exp(abs(np.tanh(x)))),
    "logarithm of a modulus": (lambda h: tp.log(3 - tp.abs(tp.sin(h))), lambda x: np.log(3 - abs(np.sin(x)))),
    "pole of cosh": (lambda h: 1 / (2 - cosh(tp.tanh(h))), lambda x: 1 / (2 - np.cosh(np.tanh(x)))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounded_arguments_have_an_expansion(name):
    function, f = FUNCTIONS[name]

    found = expansion_of_one_layer(function)
    *wanted, fluctuating = of_one_layer(f, KINKS)
    numbers = [float(v) for v in (found.limit, found.bias, found.variance)]
    assert numbers == pytest.approx(wanted, abs=1e-6)
    assert min(abs(wanted[1]), fluctuating) > 1e-5  # without b, or as if |x|² did not fluctuate, it would be seen


@pytest.mark.parametrize(
    "quotient",
    [
        lambda x, y: (x + y) ** 2 / tp.abs(x + y),
        lambda x, y: (x + y) / tp.abs(x + y) * (y + x),
        lambda x, y: (x + y) ** 4 / tp.abs(x + y) ** 3,
    ],
)
def test_powers_over_moduli_have_no_pole(quotient):
    """E |x + y| = √(2/π) E √q with q = avg(u²) + avg(v²) of mean 2 and variance 4/n: 2/√π · (1 − 1/(8n))."""

    def program(W: tp.Matrix, U: tp.Matrix, u: tp.Vector, v: tp.Vector):
        return tp.avg(quotient(W @ u, U @ v))

    found = tp.derive(tp.program(program), tp.FiniteWidth()).evaluate()["return"]
    assert found.limit.value == pytest.approx(2 / math.sqrt(math.pi), rel=1e-10)
    assert found.bias.value == pytest.approx(-1 / (4 * math.sqrt(math.pi)), rel=1e-9)


def test_a_pole_that_a_power_does_not_make_up_for_is_refused():
    def program(W: tp.Matrix, u: tp.Vector):
        return tp.avg((W @ u + u) / tp.abs(W @ u + u) ** 1.25)

    with pytest.raises(tp.NoLimitError, match="has a pole or a root"):
        tp.derive(tp.program(program), tp.FiniteWidth())
