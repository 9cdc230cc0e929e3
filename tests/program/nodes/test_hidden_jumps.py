"""Jumps that no head of a function shows, and what limits make of them."""

import itertools
import math

import numpy as np
import pytest
import sympy
from scipy import integrate

import tplimits as tp
from tplimits.program.nodes import functions as f
from tplimits.program.nodes.hidden_jumps import derivative, hidden_jumps

h, x = sympy.symbols("h x", real=True)
JUMPS = {
    h / sympy.Abs(h): (h,),
    f.relu(h) / h: (h,),
    sympy.sin(sympy.Abs(h)) / h: (h,),
    sympy.tanh(1 / h): (h,),
    f.leaky_relu(h, 0.2) / h: (h,),
    sympy.sqrt(1 - sympy.cos(h)) / h: (h,),
    x * (h + sympy.Abs(h)) / h: (h,),
    sympy.Abs(2 * h - 3 * x + 1) / (2 * h - 3 * x + 1): (2 * h - 3 * x + 1,),
    h * x / sympy.Abs(h * x): (h, x),
    sympy.Abs(h**2 - 1) / (h**2 - 1): (h**2 - 1,),
    1 / (1 + sympy.exp(1 / h)): (h,),
}
CONTINUOUS = (
    *(sympy.sin(h) / h, sympy.Abs(h) ** 1.5 / h, f.relu(h) ** 2 / h, h / sympy.sqrt(sympy.Abs(h))),
    *(h / sympy.sqrt(h**2 + x**2), sympy.exp(-1 / h**2), 1 / sympy.log(sympy.Abs(h)), f.relu(x) * sympy.sin(h) / h),
    # poles, and what is no number on one side
    *(
        1 / h,
        1 / sympy.Abs(h),
        f.relu(h) / x,
        sympy.Abs(h) / sympy.Abs(h + x),
        sympy.exp(sympy.exp(1 / h)),
        sympy.sin(1 / h),
        sympy.log(h) / h,
    ),
)


@pytest.mark.parametrize("function", JUMPS, ids=str)
def test_where_functions_jump(function):
    assert hidden_jumps(function) == JUMPS[function]


@pytest.mark.parametrize("function", CONTINUOUS, ids=str)
def test_continuous_functions_and_poles_do_not_jump(function):
    assert hidden_jumps(function) == ()


@pytest.mark.long
@pytest.mark.parametrize("outside", [lambda t: t, lambda t: sympy.tanh(t / 40), lambda t: x * t + h])
def test_each_place_is_asked_of_what_jumps_there(outside):
    """Of sums only the terms that are divided by what vanishes are looked at: 66 places cost a second."""
    variables = sympy.symbols("y:12", real=True)
    differences = [a - b for i, a in enumerate(variables) for b in variables[i + 1 :]]
    function = outside(sympy.Add(*(f.relu(d) / d for d in differences)) + sympy.sin(variables[0]))
    assert {sympy.Abs(place) for place in hidden_jumps(function)} == set(map(sympy.Abs, differences))
    smooth = outside(sympy.Add(*(f.relu(d) / sympy.sqrt(sum(y**2 for y in variables)) for d in differences)))
    assert hidden_jumps(smooth) == ()


FUNCTIONS = {
    "ratio to the absolute value": (lambda u: u / tp.abs(u), np.sign),
    "ratio of a relu": (lambda u: tp.relu(u) / u, lambda u: 1.0 * (u > 0)),
    "sine of an absolute value": (lambda u: tp.sin(tp.abs(u)) / u, lambda u: math.sin(abs(u)) / u),
    "function of a pole": (lambda u: tp.tanh(1 / u), lambda u: math.tanh(1 / u)),
    "logarithm": (lambda u: tp.log(1 + tp.abs(u)) / u, lambda u: math.log1p(abs(u)) / u),
    "root": (lambda u: tp.sqrt(1 - tp.cos(u)) / u, lambda u: math.sqrt(1 - math.cos(u)) / u),
}


def gaussian_mean(function, variance=1.0):
    """E over N(0, variance), from both sides of 0."""
    density = lambda u: math.exp(-u * u / 2 / variance) / math.sqrt(2 * math.pi * variance)  # noqa: E731
    sides = ((-12.0, 0.0), (0.0, 12.0))
    return sum(integrate.quad(lambda u: function(u) * density(u), *side, epsabs=1e-12, limit=200)[0] for side in sides)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_dot_part_of_a_width_limit(name):
    function, plain = FUNCTIONS[name]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(x * (W.T @ function(W @ x)))

    # ⟨x|Wᵀ φ(W x)⟩ = E φ′(h), which Stein's lemma writes without a derivative
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(
        gaussian_mean(lambda u: u * plain(u)), rel=1e-6
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_dot_part_of_a_kernel_and_no_tangent_through_the_jump(name):
    function, plain = FUNCTIONS[name]

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * (W.T @ function(W @ tp.sum(U * ξ, over="d")))

    pair = tp.derive(network, tp.Kernels()).evaluate(np.array([[1.2, -0.5]]))
    c = 1.2**2 + 0.5**2
    dot = gaussian_mean(lambda u: u * plain(u), c) / c
    assert pair.nngp[0, 0] == pytest.approx(gaussian_mean(lambda u: plain(u) ** 2, c) + c * dot**2, rel=1e-6)
    with pytest.raises(tp.NoLimitError, match="jump"):
        _ = pair.ntk


def test_no_gradient_passes_a_hidden_jump_in_feature_learning():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        u = tp.sum(U * ξ, over="d")
        return v * u / tp.abs(u)

    with pytest.raises(tp.NoLimitError, match="its derivative is a delta"):
        tp.derive(network, tp.MaximalUpdate(tp.SGD()))


def test_the_sign_of_a_difference_of_vectors():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        g = tp.sum(U * ξ, over="d")
        h = W @ g
        return v * (W.T @ ((g - h) / tp.abs(h - g)))

    found = tp.derive(network, tp.Kernels(train=("v",))).evaluate(np.array([[1.2, -0.5]]))
    # h − g has the variance 2c and the density 1/√(4πc) at 0: the dot part is 2 g/√(4πc), of norm² 1/π
    assert found.nngp[0, 0] == pytest.approx(1 + 1 / math.pi, rel=1e-6)


def wavy(u, terms, sin):
    return u + sum(sin((k + 1) * u) / 10 for k in range(terms))


@pytest.mark.long
@pytest.mark.parametrize("terms", [3, 250], ids=["short", "of a thousand parts"])
@pytest.mark.parametrize("name", ["ratio to the absolute value", "function of a pole"])
def test_jumps_of_long_functions_count_in_dot_parts(name, terms):
    function, plain = FUNCTIONS[name]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg(x * (W.T @ (function(h) * tp.exp(-tp.tanh(wavy(h, terms, tp.sin))))))

    # without the delta: 0.54 for 0.91 of u/|u|, 0.23 for 0.60 of tanh(1/u)
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(
        gaussian_mean(lambda u: u * plain(u) * math.exp(-math.tanh(wavy(u, terms, math.sin)))), rel=1e-6
    )


def test_every_place_of_a_function_too_long_to_look_at_is_taken_for_a_jump(monkeypatch):
    function = f.relu(h) ** 2 / (2 * h) * sympy.exp(-sympy.tanh(wavy(h, 3, sympy.sin)))
    assert hidden_jumps.__wrapped__(function) == ()
    monkeypatch.setitem(hidden_jumps.__wrapped__.__globals__, "_LONG", 5)
    assert hidden_jumps.__wrapped__(function) == (h,)


def test_derivatives_part_by_part_are_those_of_the_whole():
    """Against SymPy's own, function in function; a sign that it does not differentiate against its two sides."""
    x, y, z = sympy.symbols("x y z", real=True)
    heads = [sympy.tanh, sympy.exp, sympy.log, sympy.atan, sympy.DiracDelta, f.relu, f.gelu]
    heads += [f.sigmoid, lambda u: u**3, lambda u: u**y, lambda u: 1 / sympy.sqrt(u), lambda u: 2**u]
    heads += [lambda u: f.maximum(u, y), lambda u: f.where(u, y * u, u**2)]
    for outer, inner in (*zip(heads, heads, strict=True), *itertools.pairwise(heads), *itertools.pairwise(heads[::-3])):
        whole = outer(inner(2 * x + y) * z + x / 3)
        assert derivative(whole, x) == whole.diff(x), whole
    assert derivative(sympy.sign(x - y / z) * sympy.Abs(x), x).xreplace({x: y / z + 1}).subs({y: 2, z: -1}) == -1
