"""Exponentials, poles and roots of vectors whose arguments are bounded: expanded, since every moment exists."""

from __future__ import annotations

import mpmath
import pytest
import sympy

import tplimits as tp

asinh, cosh = (tp.elementwise(head) for head in (sympy.asinh, sympy.cosh))
FUNCTIONS = {
    "exponential of asinh": (lambda h: tp.exp(asinh(tp.tanh(h))), lambda x: mpmath.exp(mpmath.asinh(mpmath.tanh(x)))),
    "exponential of a modulus": (lambda h: tp.exp(tp.abs(tp.tanh(h))), lambda x: mpmath.exp(abs(mpmath.tanh(x)))),
    "logarithm of a modulus": (lambda h: tp.log(3 - tp.abs(tp.sin(h))), lambda x: mpmath.log(3 - abs(mpmath.sin(x)))),
    "pole of cosh": (lambda h: 1 / (2 - cosh(tp.tanh(h))), lambda x: 1 / (2 - mpmath.cosh(mpmath.tanh(x)))),
}


PIECES = [k * mpmath.pi / 2 for k in range(-7, 8)]


def mean(f, weight=lambda x: 1):
    """E f(x) w(x) of a standard normal x, in pieces between the kinks."""
    return mpmath.quad(lambda x: f(x) * weight(x) * mpmath.npdf(x), PIECES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounded_arguments_have_an_expansion(name):
    """avg f(W x) given x has the mean E f(√q g), q = avg x² with variance 2/n: b = (E f)″, C = Var f + 2 (E f)′²."""
    function, f = FUNCTIONS[name]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(function(W @ x))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    # derivatives in q of the density, not of f, which may have kinks
    limit, slope, bias = mean(f), mean(f, lambda x: (x**2 - 1) / 2), mean(f, lambda x: (x**4 - 6 * x**2 + 3) / 4)
    spread = mean(lambda x: f(x) ** 2) - limit**2
    assert abs(found.limit.value - limit) < 1e-8
    assert abs(found.bias.value - bias) < 1e-6 < abs(bias)
    assert abs(found.variance.value - (spread + 2 * slope**2)) < 1e-6 < slope**2
