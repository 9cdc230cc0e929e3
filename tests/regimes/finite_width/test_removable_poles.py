"""Removable poles at scalars that tend to 0: b and C are those of the continued function."""

import math

import numpy as np
import pytest
import sympy
from expanded import expansion_of_one_layer, of_one_layer

import tplimits as tp

#: of s with b = 0 and C = 1: f(0), f″(0)/2 and f′(0)² by hand
FUNCTIONS = {
    "sin(s)/s": (lambda s: tp.sin(s) / s, 1, -1 / 6, 0),
    "(1 − cos s)/s²": (lambda s: (1 - tp.cos(s)) / s**2, 1 / 2, -1 / 24, 0),
    "log(1 + s)/s": (lambda s: tp.log(1 + s) / s, 1, 1 / 3, 1 / 4),
    "(eˢ − 1)/s": (lambda s: (tp.exp(s) - 1) / s, 1, 1 / 6, 1 / 4),
    "s/tanh(s)": (lambda s: s / tp.tanh(s), 1, 1 / 3, 0),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_of_a_scalar(kind):
    function, limit, bias, variance = FUNCTIONS[kind]

    @tp.program
    def pole(x: tp.Vector, y: tp.Vector):
        return function(tp.avg(x * y))

    derived = tp.derive(pole, tp.FiniteWidth())
    found = derived.evaluate()["return"]
    assert [float(v) for v in (found.limit, found.bias, found.variance)] == pytest.approx(
        [limit, bias, variance], abs=1e-10
    )
    exact = derived.exact("return")
    assert sympy.N(exact.bias("return") - sympy.nsimplify(bias, rational=True)) == pytest.approx(0, abs=1e-9)


@tp.program
def beside(W: tp.Matrix, x: tp.Vector):
    s = tp.avg(x * (W @ x))
    return tp.avg(x * tp.sin(s * x) / s)


@pytest.mark.long
def test_beside_a_vector():
    """⟨x² − s² x⁴/6⟩ with n E s² → 1: b = −E x⁴/6, C = Var x²; networks by hand."""
    found = tp.derive(beside, tp.FiniteWidth()).evaluate()["return"]
    assert [float(found.bias), float(found.variance)] == pytest.approx([-0.5, 2.0], abs=1e-9)
    n, rng = 40, np.random.default_rng(5)
    x = rng.standard_normal((400_000, n))
    # x·W x is normal given x, of variance |x|⁴/n
    s = (x * x).mean(axis=1) * rng.standard_normal(len(x)) / math.sqrt(n)
    # the mean of x² is known: what it is off is taken from what is drawn
    off = n * (x * np.sin(s[:, None] * x) / s[:, None] - x * x).mean(axis=1)
    assert off.mean() == pytest.approx(-0.5, abs=5 * off.std() / math.sqrt(len(x)) + 6 / n)
    assert off.mean() != pytest.approx(0.5, abs=0.3)


def test_a_pole_that_stays_is_refused():
    @tp.program
    def pole(x: tp.Vector, y: tp.Vector):
        return tp.cos(tp.avg(x * y)) / tp.avg(x * y)

    with pytest.raises(tp.NoLimitError, match="is not finite"):
        tp.derive(pole, tp.FiniteWidth())


#: of h = W x, in networks √(|x|²/n) times normal variables: a factor beside the function may be a vector, too
OF_VECTORS = {
    "tanh(h)/h": (lambda h: tp.tanh(h) / h, lambda h: np.tanh(h) / h),
    "(1 − cos h)/h²": (lambda h: (1 - tp.cos(h)) / h**2, lambda h: (1 - np.cos(h)) / h**2),
    "1/tanh(h) − 1/h": (lambda h: h / tp.tanh(h) - h * (1 / h), lambda h: h / np.tanh(h) - 1),
    "sin(h)/h, sin(h) named": (lambda h: tp.sin(h).named("t") / h, lambda h: np.sin(h) / h),
    "tanh(3h − 1)/(6h − 2)": (lambda h: tp.tanh(3 * h - 1) / (6 * h - 2), lambda h: np.tanh(3 * h - 1) / (6 * h - 2)),
}


@pytest.mark.parametrize("kind", OF_VECTORS)
def test_of_a_vector(kind):
    function, on_arrays = OF_VECTORS[kind]

    *wanted, fluctuating = of_one_layer(on_arrays)
    found = expansion_of_one_layer(function)
    numbers = [float(v) for v in (found.limit, found.bias, found.variance)]
    assert numbers == pytest.approx(wanted, abs=1e-6)
    # neurons as if their |x|² did not fluctuate
    assert numbers != pytest.approx([*wanted[:2], wanted[2] - fluctuating], abs=1e-6)


def test_poles_of_vectors_that_stay_are_refused():
    for function in (lambda h: tp.tanh(h) / (h + h**3 - 1 / h), lambda h: tp.abs(tp.tanh(h)) ** (1 / 4)):

        @tp.program
        def pole(W: tp.Matrix, x: tp.Vector):
            return tp.avg(function(W @ x))  # noqa: B023 - read at once

        with pytest.raises(tp.NoLimitError):
            tp.derive(pole, tp.FiniteWidth())


def test_a_square_comes_out_of_a_kink():
    """⟨relu(s² x)⟩ = s² ⟨relu(x)⟩ with n E s² → 1, which is no kink at the limit of a scalar."""

    @tp.program
    def kink(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.relu(x * tp.avg(x * y) ** 2))

    found = tp.derive(kink, tp.FiniteWidth()).evaluate()["return"]
    numbers = [float(v) for v in (found.limit, found.bias, found.variance)]
    assert numbers == pytest.approx([0, 1 / math.sqrt(2 * math.pi), 0], abs=1e-9)


#: of u = W x and v = W y, with q = |y − x|²/n, n Var q → 8: L, b and C of −√q relu(g), and of q relu(g)²/2
NO_JUMPS = {
    "(u − v) step(v − u)": (
        lambda u, v: (u - v) * tp.step(v - u),
        (-(math.pi**-0.5), 1 / (4 * math.pi**0.5), 1 - 1 / (2 * math.pi)),
    ),
    "(u − v)² step(v − u)/2": (lambda u, v: (u - v) ** 2 * tp.step(v - u) / 2, (1 / 2, 0, 7 / 4)),
}


@pytest.mark.parametrize("kind", NO_JUMPS)
def test_a_jump_where_its_factor_vanishes_is_none(kind):
    function, numbers = NO_JUMPS[kind]

    @tp.program
    def jump(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg(function(W @ x, W @ y))

    found = tp.derive(jump, tp.FiniteWidth()).evaluate()["return"]
    assert [float(v) for v in (found.limit, found.bias, found.variance)] == pytest.approx(numbers, abs=1e-6)
