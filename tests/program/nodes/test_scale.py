"""Powers of the width."""

import pytest
import sympy
from sympy import Integer, Rational

from tplimits.program.nodes.entries import NO_NEURON, Entry, N, width_symbol
from tplimits.program.nodes.functions import relu
from tplimits.program.nodes.scale import (
    at_infinity,
    highest_power,
    in_root,
    irrational_power,
    led,
    multiplied_out,
    powers_of_n,
)
from tplimits.program.parts import longer

x, y = sympy.symbols("x y", real=True)
k = width_symbol("k")
θ = Entry(Integer(0), NO_NEURON)


@pytest.mark.parametrize(
    ("expr", "power"),
    [
        (3 * N**2 + N, 2),
        (x / sympy.sqrt(N), Rational(-1, 2)),
        (N * x - N * x + x / N, -1),
        (x + 1, 0),
        (N ** Rational(1, 3) + N ** Rational(-5, 7), Rational(1, 3)),
        (N ** Rational(0.3) * x, Rational(0.3)),
        (N ** Rational(-0.3) * x, Rational(-0.3)),
        ((1 + sympy.sqrt(N)) ** 3 / N, Rational(1, 2)),
        (sympy.tanh(x) * N, 1),
    ],
)
def test_highest_power(expr, power):
    assert highest_power(expr) == power


def test_highest_power_of_zero_and_inside_a_function():
    assert highest_power(x - x) is None
    for expr in (sympy.tanh(x * N), N * sympy.log(N), 1 / (1 + N)):
        with pytest.raises(ValueError, match="n stands inside a function in"):
            highest_power(expr)


def test_at_infinity():
    assert at_infinity(3 + x / N) == 3 and at_infinity(x) == x
    assert at_infinity((1 + y / sympy.sqrt(N)) * sympy.tanh(x)) == sympy.tanh(x)
    assert at_infinity(N * x - N * x + y) == y
    assert at_infinity(sympy.tanh(x + y / N)) == sympy.tanh(x)
    with pytest.raises(ValueError, match=r"^sqrt\(n\)$"):
        at_infinity(sympy.sqrt(N) * x + y)


def test_in_root_holds_whole_powers_only():
    expr, root, q = in_root(x * N ** Rational(1, 3) + 1 / sympy.sqrt(N))
    assert q == 6 and expr == x / root**2 + root**3


@pytest.mark.parametrize(
    "expr",
    [
        N ** sympy.sqrt(2) * x,
        N**x,
        2**N,
        x ** (1 / N),
        sympy.exp(N),
        2 ** sympy.sqrt(N),
        k ** sympy.sqrt(2),
        sympy.exp(k * x),
    ],
)
def test_powers_of_widths_that_are_not_rational(expr):
    assert irrational_power(expr, (N, k)) is not None


@pytest.mark.parametrize(
    "expr",
    [
        N ** Rational(2, 3) * x,
        x**y,
        sympy.exp(x),
        sympy.exp(sympy.sqrt(N) * θ),
        sympy.log(N),
        sympy.sqrt(2),
        sympy.exp(x / k),
    ],
)
def test_powers_that_are_fine(expr):
    assert irrational_power(expr, (N, k)) is None


def test_long_expressions_that_keep_n_inside_are_not_multiplied_out():
    """A softmax less its largest logit, in its gradient, had been multiplied out for minutes to find no power of n."""
    many = sympy.symbols("x0:50", real=True)
    inside = sympy.Mul(*(1 + a + relu(a / sympy.sqrt(N)) for a in many))  # 3⁵⁰ terms
    assert longer(inside, 400) and powers_of_n(multiplied_out(inside)) == [] and led(inside) is None
    assert multiplied_out(inside) == inside
    # what comes out is multiplied out, however long, and so is all that is short
    outside = sympy.Add(*((a + 1 / sympy.sqrt(N)) ** 2 * sympy.sin(a) * sympy.cos(a) for a in many))
    assert longer(outside, 400) and set(powers_of_n(multiplied_out(outside))) == {0, -sympy.S.Half, -1}
    short = (1 + relu(x / N)) * (y + 1)
    assert multiplied_out(short) == sympy.expand(short)
