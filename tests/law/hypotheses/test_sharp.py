"""Divisors whose parts a power of n weighs against each other, in scalars and in vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy

import tplimits as tp


def mean(function):
    """E f(g), g standard normal."""
    return scipy.integrate.quad(lambda g: function(g) * np.exp(-g * g / 2) / np.sqrt(2 * np.pi), -12, 12)[0]


@pytest.mark.parametrize(
    ("quotient", "of_s"),
    [
        (lambda s: tp.n * s * s / (1 + tp.n * s * s), lambda g: g * g / (1 + g * g)),
        (lambda s: tp.n * s * s / (2 + tp.n * s * s), lambda g: g * g / (2 + g * g)),
        (lambda s: tp.n**2 * s**4 / (1 + tp.n**2 * s**4), lambda g: g**4 / (1 + g**4)),
        (lambda s: (1 + 2 * tp.n * s * s) / (1 + tp.n * s * s), lambda g: (1 + 2 * g * g) / (1 + g * g)),
        (lambda s: tp.n**1.5 * tp.abs(s) / (1 + tp.n**1.5 * tp.abs(s)), lambda g: 1.0),
    ],
    ids=["n s²/(1 + n s²)", "n s²/(2 + n s²)", "n² s⁴/(1 + n² s⁴)", "(1 + 2n s²)/(1 + n s²)", "n^(3/2)|s|"],
)
def test_averages_absorb_the_powers_of_n_of_a_quotient(quotient, of_s):
    """n s²/(1 + n s²) is S²/(1 + S²), S = √n s, alone and beside vectors."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x * y)
        return quotient(s), tp.avg(x * x * quotient(s))

    found = tp.derive(program).evaluate()
    assert [found[f"return[{k}]"].value for k in (0, 1)] == pytest.approx([mean(of_s)] * 2, abs=1e-9)


def test_of_two_scalars():
    @tp.program
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        s, t = tp.avg(x * y), tp.avg(x * z)
        return tp.n * t * t / (1 + tp.n * s * s)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(mean(lambda g: 1 / (1 + g * g)), abs=1e-9)


def test_a_limit_that_is_no_zero_outgrows_what_is_added():
    @tp.program
    def program(x: tp.Vector):
        s = tp.avg(x * x)
        return tp.n * s / (1 + tp.n * s), tp.avg(x * x / (s + 1 / tp.n))

    found = tp.derive(program).evaluate()
    assert [found[f"return[{k}]"].value for k in (0, 1)] == pytest.approx([1, 1])


#: functions that are sharp at 0, and whether their gradients alone are
SHARP = {
    "n x²/(1 + n x²)": (lambda x: tp.n * x * x / (1 + tp.n * x * x), False),
    "n^(−1/2)/(x² + 1/n)": (lambda x: 1 / (x * x + 1 / tp.n) / tp.sqrt(tp.n), False),
    "(n (|x| + 1/n)²)^(−1)": (lambda x: 1 / (tp.abs(x) + 1 / tp.n) ** 2 / tp.n, False),
    "x/√(x² + 1/n)": (lambda x: x / tp.sqrt(x * x + 1 / tp.n), True),
    "x/(|x| + 1/n)": (lambda x: x / (tp.abs(x) + 1 / tp.n), True),
}


@pytest.mark.parametrize("name", SHARP)
def test_sharp_functions_of_vectors_are_refused_where_they_are_seen(name):
    """Networks have E n^(−1/2)/(x² + 1/n) = √(π/2), and gradients of the others that grow with n."""
    function, gradients = SHARP[name]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    def asked(derive):
        with pytest.raises(tp.TplimitsError, match=r"turns ever more sharply|moment not established"):
            derive()

    if gradients:  # sign(x), as it stands
        assert tp.derive(network, tp.Kernels(train=("v",))).evaluate([[1.0]]).nngp == pytest.approx(1)
    else:
        asked(lambda: tp.derive(program).evaluate())
        asked(lambda: tp.derive(network, tp.Kernels(train=("v",))).evaluate([[1.0]]))
    asked(lambda: tp.derive(network, tp.NeuralTangent(tp.SGD())))
    asked(lambda: tp.derive(network, tp.MaximalUpdate(tp.SGD())))


def ends(function, n):
    """E f(g, n) by pieces that shrink towards 0, where such functions are sharp."""
    places = [0.0, *np.geomspace(1e-3 / n, 12, 200)]
    pieces = itertools.pairwise(places)
    half = sum(scipy.integrate.quad(lambda g: function(g, n) * np.exp(-g * g / 2), a, b)[0] for a, b in pieces)
    return 2 * half / np.sqrt(2 * np.pi)


#: even functions of the variable of tp.expect, for the language and for NumPy; their means tend to what is told
HIDDEN = {
    "n^(−1/2)/(g² + 1/n)": (
        lambda g: 1 / (tp.sqrt(tp.n) * (g * g + 1 / tp.n)),
        lambda g, n: 1 / (np.sqrt(n) * (g * g + 1 / n)),
        np.sqrt(np.pi / 2),
    ),
    "n^(−1/2) (|g| + 1/n)^(−3/2)": (
        lambda g: (tp.abs(g) + 1 / tp.n) ** -1.5 / tp.sqrt(tp.n),
        lambda g, n: (abs(g) + 1 / n) ** -1.5 / np.sqrt(n),
        4 / np.sqrt(2 * np.pi),
    ),
    "(1/n + g⁴) (g² + 1/n)^(−3/2)": (
        lambda g: (1 / tp.n + g**4) / (g * g + 1 / tp.n) ** 1.5,
        lambda g, n: (1 / n + g**4) / (g * g + 1 / n) ** 1.5,
        4 / np.sqrt(2 * np.pi),
    ),
    "max(|g|, 1/n)^(−2)/n": (
        lambda g: 1 / tp.maximum(tp.abs(g), 1 / tp.n) ** 2 / tp.n,
        lambda g, n: 1 / np.maximum(abs(g), 1 / n) ** 2 / n,
        4 / np.sqrt(2 * np.pi),
    ),
    "where(|g| − 1/n, g^(−2), 0)/n": (
        lambda g: tp.where(tp.abs(g) - 1 / tp.n, 1 / g**2, 0) / tp.n,
        lambda g, n: np.where(abs(g) > 1 / n, 1 / g**2, 0) / n if g else 0.0,
        2 / np.sqrt(2 * np.pi),
    ),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_means_of_functions_that_are_sharp_at_a_value_of_a_normal_are_refused(name):
    """They were printed as means of limits: 0, exactly."""
    function, of_n, limit = HIDDEN[name]
    assert ends(of_n, 1e6) == pytest.approx(limit, rel=0.02)

    @tp.program
    def scalar(x: tp.Vector):
        return tp.avg(x * x) * tp.expect(function)

    @tp.program
    def vector(x: tp.Vector):
        return tp.avg((x * tp.expect(function)) ** 2)

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        m = tp.avg(x * x) * tp.expect(function)
        return v * x * m

    for program in (scalar, vector):
        with pytest.raises(tp.NoLimitError, match="more sharply at a value of its variable"):
            tp.derive(program)
    for regime in (tp.Kernels(), tp.MaximalUpdate(tp.SGD()), tp.NeuralTangent(tp.SGD())):
        with pytest.raises(tp.NoLimitError, match="more sharply at a value of its variable"):
            tp.derive(network, regime)


@pytest.mark.parametrize("name", list(HIDDEN)[:2])
def test_layers_with_means_of_sharp_functions_are_refused(name):
    """The drift of (1 + E f(g)/n) W x is 2 lim E f(g) V, and was 0."""
    function, _, _ = HIDDEN[name]

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix):
        return W @ x * (1 + tp.expect(function) / tp.n)

    with pytest.raises(tp.NoLimitError, match="more sharply at a value of its variable"):
        tp.derive(block, tp.Proportional())


def test_a_pole_that_a_condition_on_n_keeps_off_is_refused_in_vectors():
    """avg(where(|x| − 1/n, x^(−2), 0)/n) tends to 2/√(2π), and was 0."""

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.where(tp.abs(x) - 1 / tp.n, 1 / x**2, 0) / tp.n)

    with pytest.raises(tp.NoLimitError, match="ever more sharply"):
        tp.derive(program)


#: means that are those of limits, and what these are
DOMINATED = {
    "g²/(g² + 1/n)": (lambda g: g * g / (g * g + 1 / tp.n), lambda g, n: g * g / (g * g + 1 / n)),
    "(|g| + n^(−1/2))^(−1/2)": (
        lambda g: (tp.abs(g) + 1 / tp.sqrt(tp.n)) ** -0.5,
        lambda g, n: (abs(g) + n**-0.5) ** -0.5,
    ),
    "log(g² + 1/n)": (lambda g: tp.log(g * g + 1 / tp.n), lambda g, n: np.log(g * g + 1 / n)),
    "√(g² + 1/n)": (lambda g: tp.sqrt(g * g + 1 / tp.n), lambda g, n: np.sqrt(g * g + 1 / n)),
    "max(|g|, 1/n)": (lambda g: tp.maximum(tp.abs(g), 1 / tp.n), lambda g, n: np.maximum(abs(g), 1 / n)),
    "1/(1 + g²/n)": (lambda g: 1 / (1 + g * g / tp.n), lambda g, n: 1 / (1 + g * g / n)),
}


@pytest.mark.parametrize("name", DOMINATED)
def test_means_that_are_those_of_their_limits_stay(name):
    function, of_n = DOMINATED[name]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(x * x) * tp.expect(function)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(ends(of_n, 1e14), rel=1e-3)


#: means that have a limit, which is ½, √(2/π), 1 and 0; it takes a bound for all values of the variable to see it
MOVING = {
    "n (exp(g/√n) − 1)": lambda: tp.expect(lambda g: tp.n * (tp.exp(g / tp.sqrt(tp.n)) - 1)),
    "g tanh(n g)": lambda: tp.expect(lambda g: g * tp.tanh(tp.n * g)),
    "√n g tanh(g/√n)": lambda: tp.expect(lambda g: tp.sqrt(tp.n) * g * tp.tanh(g / tp.sqrt(tp.n))),
    "cos(n g)": lambda: tp.expect(lambda g: tp.cos(tp.n * g)),
}
#: powers of n beside them
BESIDE = {
    "n (E exp(g/√n) − 1)": lambda: tp.n * (tp.expect(lambda g: tp.exp(g / tp.sqrt(tp.n))) - 1),
    "n E tanh(g/√n)²": lambda: tp.n * tp.expect(lambda g: tp.tanh(g / tp.sqrt(tp.n)) ** 2),
}


@pytest.mark.parametrize("name", [*MOVING, *BESIDE])
def test_means_with_powers_of_n_that_do_not_cancel_are_refused_for_that(name):
    """They were E[nan], or blamed on an average that diverges, or an exception of others in kernels."""
    mean = (MOVING | BESIDE)[name]

    @tp.program
    def scalar(x: tp.Vector):
        return tp.avg(x * x) * mean()

    with pytest.raises(tp.NoLimitError, match=r"depends on n, and has its limit only where no positive power of n"):
        tp.derive(scalar)


@pytest.mark.parametrize("name", MOVING)
def test_so_are_they_in_networks(name):
    mean = MOVING[name]

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        m = tp.avg(x * x) * mean()
        return v * x * m

    for regime in (tp.Kernels(), tp.MaximalUpdate(tp.SGD()), tp.NeuralTangent(tp.SGD())):
        with pytest.raises(tp.NoLimitError, match="depends on n, and has its limit only where"):
            tp.derive(network, regime)


@pytest.mark.parametrize("function", [lambda g: g * tp.step(tp.n * g), lambda g: tp.relu(tp.n * g) / tp.n])
def test_powers_of_n_that_leave_a_kink_or_a_jump_cancel(function):
    @tp.program
    def scalar(x: tp.Vector):
        return tp.avg(x * x) * tp.expect(function)

    assert float(tp.derive(scalar).evaluate()["return"]) == pytest.approx(1 / np.sqrt(2 * np.pi), rel=1e-14)
