"""Functions written by their definitions: the same numbers as by their heads, and what was refused still is."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from scipy import integrate, stats

import tplimits as tp
from tplimits.program.nodes.functions import sigmoid, step
from tplimits.program.nodes.spellings import in_heads


def quotient(one, other):
    """(1 − e^(−S²))²/T² with S = √n ⟨a|f(x)⟩ and T = √n ⟨a|g(x)⟩."""

    @tp.program
    def program(x: tp.Vector, a: tp.Vector):
        above, below = (tp.sqrt(tp.n) * tp.avg(a * f(x)) for f in (one, other))
        return tp.avg(x**2) * ((1 - tp.exp(-(above**2))) / below) ** 2

    return tp.derive(program)


SPELLED = {
    "relu": (tp.relu, lambda x: tp.maximum(x, 0), 0.5),
    "sigmoid": (tp.sigmoid, lambda x: 1 / (1 + tp.exp(-x)), 0.293379),
    "step": (tp.sign, lambda x: tp.step(x) - tp.step(-x), 1),
    "modulus": (tp.abs, lambda x: tp.relu(x) + tp.relu(-x), 1),
}


def mean_of(square):
    """E ((1 − e^(−S²))/S)² for S of this variance."""
    scale = np.sqrt(square)
    value = integrate.quad(lambda s: (np.expm1(-(s**2)) / s) ** 2 * stats.norm.pdf(s, scale=scale), 1e-9, 12 * scale)[0]
    return 2 * value


@pytest.mark.parametrize("name", SPELLED)
def test_two_spellings_are_one_fluctuation(name):
    one, other, square = SPELLED[name]
    if name == "sigmoid":
        square = integrate.quad(lambda x: stats.norm.pdf(x) / (1 + np.exp(-x)) ** 2, -12, 12)[0]
    found = quotient(one, other).evaluate()["return"].value
    assert found == pytest.approx(mean_of(square), rel=1e-6)
    assert found != pytest.approx(mean_of(1.01 * square), rel=1e-4)


def test_two_functions_are_two_fluctuations():
    """Beside it S is independent of T, or nearly: (1 − e^(−S²))/T has a pole."""
    for other in (lambda x: tp.relu(-x), lambda x: tp.maximum(x, 1e-3)):
        with pytest.raises(tp.TplimitsError, match=r"not established|not finite|converge|no finite variance"):
            quotient(tp.relu, other).evaluate()


def test_a_root_that_a_spelling_leaves_is_refused():
    """√(max(x, 0) − 1) is real nowhere near 0, in either spelling; √(max(x, 0)) is everywhere."""

    def program(f):
        @tp.program
        def of(x: tp.Vector):
            return tp.avg(tp.sqrt(f(x)) ** 2)

        return tp.derive(of)

    assert program(lambda x: tp.maximum(x, 0)).evaluate()["return"].value == pytest.approx(1 / np.sqrt(2 * np.pi))
    with pytest.raises(tp.TplimitsError, match=r"not real|root"):
        program(lambda x: tp.maximum(x, 0) - 1).evaluate()


@pytest.mark.parametrize("named", [True, False], ids=["named", "written"])
def test_a_sigmoid_of_a_sum_is_one_head_at_every_depth(named):
    """h ← h/2 + eʰ/(1 + eʰ), three times: exponents that are sums cancel, too."""

    def named_parts(h):
        above = tp.exp(h)
        below = 1 + above
        share = above / below
        return h / 2 + share

    def written(h):
        return h / 2 + tp.exp(h) / (1 + tp.exp(h))

    @tp.program
    def program(x: tp.Vector):
        layer = named_parts if named else written
        return tp.avg(layer(layer(layer(x))))

    def truth(shift):
        def value(h):
            for _ in range(3):
                h = h / 2 + shift / (1 + np.exp(-h))
            return h

        return integrate.quad(lambda x: value(x) * stats.norm.pdf(x), -12, 12)[0]

    found = tp.derive(program).evaluate()["return"].value
    assert found == pytest.approx(truth(1), rel=1e-9)
    assert found != pytest.approx(truth(1.0001), rel=1e-6)


#: quotients of sums of powers of one exponential, and what bounds them
QUOTIENTS = {
    "tanh": (lambda e: (e - 1) / (e + 1), 1),
    "between numbers": (lambda e: (2 - 3 * e) / (1 + e), 3),
    "of second degree": (lambda e: (e**2 - e + 4) / (1 + e) ** 2, 4),
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_of_exponentials_are_sums_of_bounded_functions(name):
    """Term by term they are ∞ · 0: numbers far out, and moments after a step of training, rest on the bound."""
    quotient, bound = QUOTIENTS[name]
    x, y = sympy.symbols("x y", real=True)
    found = in_heads(y * quotient(sympy.exp(3 * x)))
    assert not found.has(sympy.exp)
    values = sympy.lambdify((x, y), found.rewrite(sigmoid, sympy.exp).subs(y, 1), "mpmath")
    for at in (-200.0, -1.3, 0.0, 0.4, 300.0):
        with mpmath.workdps(400):
            wanted = quotient(mpmath.exp(3 * mpmath.mpf(at)))
            assert abs(values(mpmath.mpf(at), 1) - wanted) < 1e-12
            assert abs(wanted) <= bound

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        e = tp.exp(2 * tp.sum(U * ξ, over="d"))
        return v * tp.tanh(W @ quotient(e))

    # exponentials whose moments are lost after a step would be refused
    assert tp.classify(network, tp.MUP, tp.SGD()).regime == "feature"


def test_a_quotient_that_grows_is_left():
    x = sympy.Symbol("x", real=True)
    for grows in ((sympy.exp(2 * x) - 1) / (sympy.exp(x) + 1), (x + sympy.exp(x)) / (1 + sympy.exp(x))):
        assert abs(in_heads(grows).subs(x, 1.7) - grows.subs(x, 1.7)) < 1e-12

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        e = tp.exp(tp.sum(U * ξ, over="d"))
        return v * tp.tanh(W @ ((e**2 - 3) / (e + 1)))

    with pytest.raises(tp.NoLimitError, match="exponential of an exponential"):
        tp.classify(network, tp.MUP, tp.SGD())


def test_a_power_that_is_a_constant_stands_beside_an_exponential():
    @tp.program
    def program(x: tp.Vector, *, c):
        return tp.avg(tp.sigmoid(x) ** c * tp.exp(-x))

    limit = tp.derive(program)
    for c in (0.5, 2):
        truth = integrate.quad(lambda x, c=c: (1 + np.exp(-x)) ** -c * np.exp(-x) * stats.norm.pdf(x), -20, 20)[0]
        found = limit.evaluate(constants={"c": c})["return"].value
        assert found == pytest.approx(truth, rel=1e-8)
        assert found != pytest.approx(1.0001 * truth, rel=1e-6)


#: squares that are written out, and what their roots are
SQUARES = {
    "(x − y)²": (lambda x, y: x**2 - 2 * x * y + y**2, lambda x, y: x - y),
    "(2 x − y)²": (lambda x, y: 4 * x**2 - 4 * x * y + y**2, lambda x, y: 2 * x - y),
    "(x − y + 1)²": (lambda x, y: x**2 + y**2 + 1 - 2 * x * y + 2 * x - 2 * y, lambda x, y: x - y + 1),
    "(x² − 1)²": (lambda x, y: x**4 - 2 * x**2 + 1, lambda x, y: x**2 - 1),
    "(tanh x − y)²": (lambda x, y: tp.tanh(x) ** 2 - 2 * y * tp.tanh(x) + y**2, lambda x, y: np.tanh(x) - y),
}


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("case", SQUARES)
def test_roots_of_squares_that_are_written_out_are_moduli(case, by_name):
    """Of E √(u²) and E log(u²)·x²; in all of them rounding under the root is negative at some nodes."""
    square, root = SQUARES[case]

    @tp.program
    def of(x: tp.Vector, y: tp.Vector):
        s = square(x, y)
        return tp.avg(tp.sqrt(s)), tp.avg(tp.log(square(x, y) if not by_name else s) * x**2)

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 2_000_000))
    u = root(x, y)
    for found, draws in zip(tp.derive(of).evaluate().values(), (abs(u), np.log(u * u) * x**2), strict=True):
        spread = draws.std() / draws.size**0.5
        assert abs(found.value - draws.mean()) < 5 * spread < abs(found.value + 0.05 - draws.mean())
        assert found.error < 1e-6


def test_every_engine_reads_a_square_that_is_written_out():
    def network(f):
        @tp.network
        def of(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
            return v * f(tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d"))

        return of

    written, modulus, other = (
        network(f)
        for f in (
            lambda x, y: tp.sqrt(x**2 - 2 * x * y + y**2),
            lambda x, y: tp.abs(x - y),
            lambda x, y: tp.abs(x - 0.8 * y),
        )
    )
    data = np.array([[1.0, 0.0], [0.6, 0.8]])
    # |x − y| of variance 2: E (x − y)², and twice P(u v > 0) − P(u v < 0) from both weights
    kernels = tp.derive(written, tp.Kernels()).evaluate(data)
    angle = np.arcsin(0.6)
    assert kernels.nngp[0] == pytest.approx([2, 4 / np.pi * (0.8 + 0.6 * angle)], rel=1e-9)
    assert kernels.ntk[0, 1] - kernels.nngp[0, 1] == pytest.approx(2 * 0.6 * 2 / np.pi * angle, rel=1e-9)
    task = {"error": tp.squared_error(np.array([1.0, -1.0])), "lr": 0.3, "steps": 2}
    for regime, start in ((tp.MaximalUpdate, {}), (tp.NeuralTangent, {"f0": 0.0})):
        found, known, wrong = (
            tp.derive(one, regime(tp.SGD())).evaluate(data, **task, **start).f for one in (written, modulus, other)
        )
        assert np.array_equal(found, known)
        assert abs(found - wrong).max() > 0.01


@pytest.mark.parametrize("sum_", [lambda x, y: x**2 - x * y + y**2, lambda x, y: x**2 - 3 * x * y + y**2])
def test_sums_that_are_no_squares_stay(sum_):
    x, y = sympy.symbols("x y", real=True)
    assert in_heads(sympy.sqrt(sum_(x, y))) == sympy.sqrt(sum_(x, y))
    assert in_heads(sympy.log(2 * x - x**2 - 1)) == sympy.log(2 * x - x**2 - 1)


def test_odd_powers_have_the_sign_of_their_base():
    """Even ones do not: sign(x⁴) is 1, and a factor of even power is 0 where its base is."""
    x, y = sympy.symbols("x y", real=True)
    assert in_heads(sympy.sign(x**3)) == sympy.sign(x)
    assert in_heads(step(x**5 * y)) == step(x * y)
    for other in (sympy.sign(x**4, evaluate=False), step(x**2 * y), step(1 / x)):
        assert in_heads(other) == other


def test_which_of_two_is_larger_is_seen_in_a_mean_over_other_neurons_too():
    """min(|m|, −1) + 3/2 is ½, m a mean that mixes two neurons; its step had a derivative, whatever it was called."""
    X = np.array([[-0.7, 0.8], [0.3, -0.3]])

    def gated(low):
        @tp.network
        def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            β = tp.neuron("β")
            mixed = tp.avg(tp.tanh(x + x[β]) * x[β], over=β)
            least = tp.minimum(tp.maximum(mixed, -mixed), low)
            return v * x * tp.step(least + 1.5)

        return tp.derive(network, tp.Kernels())

    pair = gated(-1).evaluate(X)
    assert pair.nngp == pytest.approx(X @ X.T)
    assert pair.ntk == pytest.approx(2 * X @ X.T)
    with pytest.raises(tp.NoLimitError, match="two neurons"):  # |m| is read
        gated(1)
