"""Orders at zero against derivatives by mpmath, and what is analytic there."""

from __future__ import annotations

import mpmath
import pytest
import sympy

from tplimits.law.hypotheses.taylor import is_analytic, order_at_zero, order_whatever_else, quotient_powers
from tplimits.program.nodes import functions

t, a = sympy.Symbol("t", real=True), sympy.Symbol("a", positive=True)
SMOOTH = (
    *(t, t**2, sympy.sin(t), 1 - sympy.cos(t), sympy.exp(t) - 1, sympy.log(1 + t), sympy.sqrt(4 + t) - 2),
    *(1 / (1 + t) - 1, sympy.tanh(t), t + t**3, (2 + t) ** sympy.Rational(-3, 2), sympy.cosh(t) - 1, sympy.erf(t)),
)


def by_derivatives(f):
    """The order of the first coefficient that is not zero."""
    coefficients = mpmath.taylor(sympy.lambdify(t, f, "mpmath"), 0, 6)
    return next((k for k, c in enumerate(coefficients) if abs(c) > 1e-6), None)


def test_orders_are_those_of_derivatives():
    for i, f in enumerate(SMOOTH):
        assert order_at_zero(f, t) == by_derivatives(f), f
        g = SMOOTH[(i + 3) % len(SMOOTH)]
        for both in (f * g, f - g, f.subs(t, g) if by_derivatives(g) else f + 1):
            assert order_at_zero(both, t) == (None if both == 0 else by_derivatives(both)), both
    assert order_at_zero(t**6, t) == 6
    assert order_at_zero(t**7, t) is None  # further than is looked
    assert order_at_zero(t * a, t) is None  # of more than the variable
    assert order_whatever_else(a * t - sympy.tanh(a * t), t) == 3
    assert order_whatever_else(a * t - sympy.tanh(t), t) == 1  # 3 at a = 1 alone


@pytest.mark.parametrize(
    ("expr", "seen"),
    [
        (sympy.log(a + t), True),
        (sympy.log(t), False),
        (sympy.log(t - 1), False),
        (sympy.log(1 + abs(t)), False),
        (sympy.sqrt(a + t**2), True),
        (sympy.sqrt(t), False),
        (t ** sympy.Rational(3, 2), False),
        (sympy.sqrt(1 + functions.relu(t)), False),
        (1 / t, False),
        (1 / (a + t), True),
        (1 / (a + abs(t)), False),
        (a**t, False),
        (t**a, False),
        (abs(a) * t, True),
        (abs(t) ** 2 * t, True),  # |t|² is t²
        (sympy.sign(t) * t, False),
        (sympy.tanh(sympy.sqrt(t)), False),
        (functions.gelu(sympy.sin(t) / a), True),
    ],
)
def test_what_is_analytic_at_zero(expr, seen):
    assert is_analytic(expr, t) is seen


def test_powers_of_a_quotient_are_those_of_a_long_division():
    """(eᵗ − 1)/(t + t²) = (1 + t/2 + t²/6)(1 − t + t²) + …."""
    t = sympy.Symbol("t", real=True)
    assert quotient_powers(sympy.exp(t) - 1, t + t**2, t, 2) == [1, sympy.Rational(-1, 2), sympy.Rational(2, 3)]
    assert quotient_powers(sympy.cos(t), t + t**2, t, 2) is None
