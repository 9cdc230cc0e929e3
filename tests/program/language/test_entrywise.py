"""Every entrywise function against NumPy, elementwise for the rest, expect for constants."""

import math

import numpy as np
import pytest
import scipy.special
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language.entrywise import _name_of
from tplimits.program.nodes.entries import GaussMean

X = np.array([-3.0, -1.2, -0.5, 0.0, 0.3, 1.0, 2.7])
Y = np.array([0.5, -1.2, 2.0, 0.0, -0.3, 1.5, 2.7])
HELD = lambda t: t * t  # noqa: E731 - named by what holds it
HOLDING = tp.elementwise(HELD)

AGAINST_NUMPY = {
    "relu": (tp.relu, lambda x: np.maximum(x, 0)),
    "leaky_relu": (tp.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu with a slope": (lambda x: tp.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "abs": (tp.abs, np.abs),
    "step": (tp.step, lambda x: np.heaviside(x, 0)),
    "sign": (tp.sign, np.sign),
    "tanh": (tp.tanh, np.tanh),
    "erf": (tp.erf, scipy.special.erf),
    "gelu": (tp.gelu, lambda x: x * scipy.special.ndtr(x)),
    "sigmoid": (tp.sigmoid, scipy.special.expit),
    "softplus": (tp.softplus, lambda x: np.log1p(np.exp(x))),
    "exp": (tp.exp, np.exp),
    "log": (lambda x: tp.log(x**2 + 1), lambda x: np.log(x**2 + 1)),
    "sqrt": (lambda x: tp.sqrt(x**2 + 1), lambda x: np.sqrt(x**2 + 1)),
    "sin": (tp.sin, np.sin),
    "cos": (tp.cos, np.cos),
    "clip": (lambda x: tp.clip(x, -1, 1.5), lambda x: np.clip(x, -1, 1.5)),
    "powers": (lambda x: x**3 - x**-2.0 + abs(x) ** 0.5, lambda x: x**3 - x**-2.0 + np.abs(x) ** 0.5),
}
TWO = {
    "maximum": (tp.maximum, np.maximum),
    "minimum": (tp.minimum, np.minimum),
    "where": (lambda x, y: tp.where(x, y, 2), lambda x, y: np.where(x > 0, y, 2)),
    "maximum with a number": (
        lambda x, y: tp.maximum(1, x) + tp.minimum(y, 0),
        lambda x, y: np.maximum(1, x) + np.minimum(y, 0),
    ),
    "leaky slope": (lambda x, y: tp.leaky_relu(x, y), lambda x, y: np.where(x > 0, x, y * x)),
}


@pytest.mark.parametrize("name", AGAINST_NUMPY)
def test_functions_of_one_value(name):
    function, expected = AGAINST_NUMPY[name]

    @tp.program
    def traced(x: tp.Vector):
        return function(x)

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(traced.run(n=7, x=X)["return"], expected(X), atol=1e-14)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_values(name):
    function, expected = TWO[name]

    @tp.program
    def traced(x: tp.Vector, y: tp.Vector):
        return function(x, y)

    np.testing.assert_allclose(traced.run(n=7, x=X, y=Y)["return"], expected(X, Y), atol=1e-14)


def test_functions_of_plain_numbers_and_symbols():
    assert tp.relu(-2) == 0 and tp.maximum(2, 3.5) == sympy.Rational(7, 2)
    assert tp.sqrt(tp.n) == sympy.sqrt(tp.n)
    assert tp.leaky_relu(-1, 0.5) == sympy.Rational(-1, 2)


def test_the_number_of_arguments_is_checked():
    with pytest.raises(ProgramError, match=r"test_entrywise\.py, line \d+: .*tp\.tanh of 2 values; it takes 1"):
        tp.tanh(1, 2)
    with pytest.raises(ProgramError, match=r"tp\.where of 2 values; it takes 3"):
        tp.where(1, 2)


# -- elementwise ----------------------------------------------------------------------------------


def test_any_sympy_expression():
    @tp.program
    def own(x: tp.Vector, y: tp.Vector, *, γ=2):
        swish = tp.elementwise(lambda u: u / (1 + sympy.exp(-γ * u)))
        both = tp.elementwise(lambda u, v: u * sympy.sin(v) + 0.5)
        return swish(x) + both(x, y), both(3, y)

    ran = own.run(n=7, x=X, y=Y)
    np.testing.assert_allclose(ran["return[0]"], X * scipy.special.expit(2 * X) + X * np.sin(Y) + 0.5, atol=1e-14)
    np.testing.assert_allclose(ran["return[1]"], 3 * np.sin(Y) + 0.5, atol=1e-14)


PIECES = {
    "Max and Min": (
        lambda u: sympy.Max(u, 0) + sympy.Min(u, 1, -2 * u),
        lambda x: np.maximum(x, 0) + np.minimum(np.minimum(x, 1), -2 * x),
    ),
    "Heaviside": (lambda u: sympy.Heaviside(u, 0) * u**2, lambda x: (x > 0) * x**2),
    "Piecewise": (
        lambda u: sympy.Piecewise((u, u > 1), (0, u <= -1), (u**2, (u < 0) | (u > 5)), (3, True)),
        lambda x: np.select([x > 1, x <= -1, (x < 0) | (x > 5)], [x, 0, x**2], 3),
    ),
    "And, Not, ≥": (
        lambda u: sympy.Piecewise((1, sympy.And(u >= -1, u < 1, sympy.Not(u > sympy.Rational(1, 2)))), (0, True)),
        lambda x: ((x >= -1) & (x < 1) & (x <= 0.5)) * 1.0,
    ),
    "tp functions": (lambda u: tp.relu(u) - tp.gelu(u), lambda x: np.maximum(x, 0) - x * scipy.special.ndtr(x)),
    "constants": (lambda u: u * sympy.pi + sympy.E, lambda x: x * np.pi + np.e),
    "a constant function": (lambda u: 2, lambda x: np.full_like(x, 2)),
    "an expectation": (lambda u: u * tp.expect(lambda g: g**4), lambda x: 3 * x),
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces(name):
    function, expected = PIECES[name]

    @tp.program
    def traced(x: tp.Vector):
        return tp.elementwise(function)(x)

    np.testing.assert_allclose(traced.run(n=7, x=X)["return"], expected(X), atol=1e-12)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda u: sympy.gamma(u), r"tp\.elementwise cannot use the function gamma; write"),
        (lambda u: math.tanh(u), "math.tanh of `_x0`; use tp.tanh"),
        (lambda u: np.tanh(u), "np.tanh of `_x0`; use tp.tanh"),
        (lambda u: u if u else 0, "`_x0` used as a condition"),
        (lambda u: u if u == 1 else 0, "`==` or `!=` on `_x0`"),
        (lambda u: {}["a"], r"cannot call this function on symbols \(KeyError: 'a'\)"),
        (lambda u: 1 / 0, r"cannot call this function on symbols \(ZeroDivisionError"),
        (lambda u: [1][3], r"cannot call this function on symbols \(IndexError"),
        (lambda u: u if u > 0 else 0, "cannot call this function on symbols .*truth value"),
        (lambda u, v: u, "cannot call this function on symbols .*missing 1 required"),
        (lambda u: u > 0, "tp.elementwise: StrictGreaterThan is not a number"),
        (lambda u: None, "tp.elementwise: NoneType is not a number"),
        (lambda u: [u, u], "the function of tp.elementwise returns a value of type list; return one expression"),
        (lambda u: u * sympy.I, "the complex number I"),
        (lambda u: u + sympy.oo, "a number that is not finite"),
        (lambda u: u / 0, "a number that is not finite"),
        (lambda u: u + sympy.sqrt(-2), "imaginary unit|complex number"),
        (lambda u: u * sympy.Integer(-1) ** sympy.Rational(1, 3), r"the complex number \(-1\)\*\*\(1/3\)"),
        (lambda u: u * sympy.acos(2), r"the complex number acos\(2\)"),
        (lambda u: sympy.Piecewise((u, u > 0)), "a Piecewise without a last branch"),
        (lambda u: sympy.Piecewise((1, sympy.Eq(u, 0)), (0, True)), "which is not an inequality"),
        (lambda u: sympy.DiracDelta(u), "the function DiracDelta"),
        (lambda u: sympy.Integral(sympy.exp(-(u**2)), (u, 0, u)), "the function Integral"),
        (lambda u: sympy.Function("f")(u), "the function f"),
        (lambda u: u * sympy.zeta(3), "the function zeta"),
        (lambda u: u * sympy.Symbol("q"), "the symbol `q`, which is not a constant"),
        (lambda u: tp.Matrix, "is not a number"),
    ],
)
def test_functions_that_cannot_be_used(function, words):
    with pytest.raises(ProgramError, match=words):

        @tp.program
        def traced(x: tp.Vector):
            return tp.elementwise(function)(x)


def test_values_belong_among_the_arguments():
    with pytest.raises(ProgramError, match="a value of the program inside a function given to tp"):

        @tp.program
        def traced(x: tp.Vector, y: tp.Vector):
            return tp.elementwise(lambda u: u * y)(x)


def test_elementwise_inside_elementwise():
    @tp.program
    def traced(x: tp.Vector):
        return tp.elementwise(lambda u: tp.elementwise(lambda v: u * v)(u + 1))(x)

    np.testing.assert_allclose(traced.run(n=7, x=X)["return"], X * (X + 1))


# -- expect -----------------------------------------------------------------------------------


def test_an_expectation_is_a_constant_of_the_program():
    mean = tp.expect(lambda g: tp.relu(g) ** 2)
    assert isinstance(mean, GaussMean) and mean.free_symbols == set()
    assert mean == tp.expect(lambda other: tp.relu(other) ** 2)
    assert tp.expect(lambda g: 7) == 7


def test_the_variable_never_meets_a_constant_of_the_same_name():
    @tp.program
    def clash(x: tp.Vector, *, g):
        return x * tp.expect(lambda z: (g * z) ** 2)

    assert clash.run(n=1, x=[1.0], g=3)["return"] == pytest.approx(9)
    assert clash.bind(g=2).run(n=1, x=[1.0])["return"] == pytest.approx(4)


def test_nested_expectations():
    mean = tp.expect(lambda g: tp.expect(lambda h: (g + 2 * h) ** 2 * tp.expect(lambda k: k**2)))

    @tp.program
    def nested(x: tp.Vector):
        return mean * x

    assert nested.run(n=1, x=[1.0])["return"] == pytest.approx(5)


def test_an_expectation_depends_on_sizes_and_widths():
    @tp.program
    def sized(x: tp.Vector["token"]):
        return tp.expect(lambda g: (g / tp.sqrt(tp.n) + tp.size("token")) ** 2) * tp.sum(x, over="token")

    assert sized.run(n=4, x=np.ones((3, 4)))["return"] == pytest.approx((1 / 4 + 9) * 3)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda g: sympy.gamma(g), r"tp\.expect cannot use the function gamma"),
        (lambda g: math.exp(g), r"math\.exp of `_g`; use tp\.exp"),
        (lambda g: float(g), r"tp\.expect cannot call this function on symbols"),
        (lambda g: 1 / (g - g), "a number that is not finite"),
    ],
)
def test_expectations_that_cannot_be_taken(function, words):
    with pytest.raises(ProgramError, match=words):
        tp.expect(function)


def test_expectations_of_traced_values():
    with pytest.raises(ProgramError, match="a value of the program inside a function given to tp"):

        @tp.program
        def traced(x: tp.Vector):
            return tp.expect(lambda g: g * x)


def test_functions_have_the_names_that_users_gave_them():
    def bump(t):
        return t

    def relu(t):
        return t

    assert _name_of(bump, None) == "bump"
    assert _name_of(relu, None) is None and _name_of(lambda t: t, None) is None  # a name that means something else
    assert _name_of(HELD, HOLDING) == "HOLDING"
