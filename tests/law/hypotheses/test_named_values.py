"""Hypotheses ask of what a name stands for: a number with a name cancels, a map with a name keeps its bounds."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tplimits as tp
from tplimits.program.nodes.parity import parity

X = np.array([[0.3, -0.8], [0.8, -0.2]])


def norm_of_an_image(result):
    """s → 1 as ⟨Vx|Vx⟩/⟨x|x⟩, which the derivation keeps as two closed numbers with names."""

    @tp.program
    def subject(x: tp.Vector, V: tp.Matrix, y: tp.Vector):
        β = tp.neuron("β")
        u = tp.avg(tp.sin(y + x[β]) * x[β], over=β)
        s = tp.avg((V @ u) ** 2) / tp.avg(u**2)
        return tp.avg(result(s, u, y) ** 2)

    return tp.derive(subject)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda s, u, y: tp.sign(s * u - u) * u, "lands on a jump"),
        (lambda s, u, y: tp.step(s - 1) * y, "lands on a jump"),
        (lambda s, u, y: tp.step(tp.relu(y) * s - tp.relu(y)) * y, "lands on a jump"),
        (lambda s, u, y: tp.sqrt(s - 1) * y, "under the root"),
        (lambda s, u, y: y / (s * u - u), "is not finite"),
    ],
)
def test_numbers_with_names_cancel(result, reason):
    """At every width s lies on either side of 1: sign, step and root have no limit there (0 and ½ had been told)."""
    with pytest.raises(tp.EvaluationError, match=reason):
        norm_of_an_image(result).evaluate(only=("return",))


@pytest.mark.long
def test_what_is_continuous_there_has_its_limit():
    found = norm_of_an_image(lambda s, u, y: tp.relu(s * u - u) + y).evaluate()["return"]
    assert found.value == pytest.approx(1, abs=1e-12)


def under(function):
    @tp.network
    def subject(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    return subject


def of_named(outer, inner):
    def function(y):
        return outer(inner(y).named("m"))

    return under(function)


NAMED = {
    "root of 1 + y²": (lambda m: tp.sqrt(m), lambda y: 1 + y**2, lambda y: mpmath.sqrt(1 + y**2)),
    "power of |y|": (lambda m: m**1.5, lambda y: tp.abs(y), lambda y: abs(y) ** mpmath.mpf("1.5")),
    "log of 2 + cos": (lambda m: tp.log(m), lambda y: 2 + tp.cos(y), lambda y: mpmath.log(2 + mpmath.cos(y))),
    "root of 1 − t": (lambda m: tp.sqrt(1 - m), lambda y: tp.tanh(y) ** 2, lambda y: mpmath.sech(y)),
    "exponential of a logarithm": (
        lambda m: tp.exp(m / 2),
        lambda y: tp.log(1 + y**2),
        lambda y: mpmath.sqrt(1 + y**2),
    ),
    "exponential of log y²": (
        lambda m: tp.exp(0.75 * m),
        lambda y: tp.log(y**2),
        lambda y: abs(y) ** mpmath.mpf("1.5"),
    ),
    "root of the larger": (lambda m: tp.sqrt(m), lambda y: tp.maximum(y, -y), lambda y: mpmath.sqrt(abs(y))),
}


@pytest.mark.parametrize("name", NAMED)
def test_kernels_ask_for_the_sign_of_a_name(name):
    outer, inner, exact = NAMED[name]
    limit = tp.derive(of_named(outer, inner), tp.Kernels(train=()))
    variance = mpmath.mpf(float(X[0] @ X[0]))
    expected = 2 * mpmath.quad(
        lambda y: exact(y) ** 2 * mpmath.npdf(y, 0, mpmath.sqrt(variance)), [0, 1, 3, 10 * mpmath.sqrt(variance)]
    )
    assert limit.evaluate(X).nngp[0, 0] == pytest.approx(float(expected), rel=1e-7)


@pytest.mark.parametrize("inner", [lambda y: tp.relu(y), lambda y: tp.step(y), lambda y: tp.tanh(tp.relu(y))])
def test_a_logarithm_of_what_is_zero_has_no_moment_by_a_name_either(inner):
    with pytest.raises(tp.EvaluationError, match="inside log vanishes"):
        tp.derive(of_named(tp.log, inner), tp.Kernels(train=())).evaluate(X)


def test_an_exponential_of_a_logarithm_by_a_name_has_the_pole_that_it_is():
    """exp(−log(y²)/2) is 1/|y|."""
    with pytest.raises(tp.TplimitsError, match="has a pole where"):
        tp.derive(of_named(lambda m: tp.exp(-m / 2), lambda y: tp.log(y**2)), tp.Kernels(train=())).evaluate(X)


def test_a_choice_of_a_pole_by_a_name_is_judged_where_it_is_used():
    """where(x, 1/x, 2)·x had no second moment once the choice had a name."""

    @tp.program
    def right(x: tp.Vector):
        inverse = 1 / x
        chosen = tp.where(x, inverse, 2)
        product = chosen * x
        return tp.avg(product**2)

    @tp.program
    def wrong(x: tp.Vector):
        inverse = 1 / x
        chosen = tp.where(x, inverse, 2)
        product = chosen * tp.cos(x)
        return tp.avg(product**2)

    expected = 1 / 2 + 4 * mpmath.quad(lambda x: x**2 * mpmath.npdf(x), [-mpmath.inf, 0])
    assert tp.derive(right).evaluate()["return"].value == pytest.approx(float(expected), abs=1e-12)
    with pytest.raises(tp.TplimitsError, match="has a pole where"):
        tp.derive(wrong).evaluate()


def test_a_root_through_two_names():
    @tp.program
    def subject(b: tp.Vector, x: tp.Vector):
        t = tp.tanh(b) ** 2
        z = 1 - t
        return tp.avg(tp.sqrt(z) * x**2)

    expected = mpmath.quad(lambda b: mpmath.sech(b) * mpmath.npdf(b), [-mpmath.inf, 0, mpmath.inf])
    assert tp.derive(subject).evaluate()["return"].value == pytest.approx(float(expected), abs=1e-10)


def test_what_may_be_negative_by_a_name_is_refused_all_the_same():
    @tp.program
    def subject(b: tp.Vector, x: tp.Vector):
        t = 2 * tp.tanh(b) ** 2
        z = 1 - t
        return tp.avg(tp.sqrt(z) * x**2)

    with pytest.raises(tp.NoLimitError, match="not real with positive probability"):
        tp.derive(subject)


def test_exponentials_have_logarithms_where_their_argument_is_flat():
    """log exp(relu(x)) had been "may be no number"."""

    @tp.program
    def subject(x: tp.Vector):
        y = tp.relu(x)
        return tp.avg(tp.log(tp.exp(y)))

    assert tp.derive(subject).evaluate()["return"].value == pytest.approx((2 * np.pi) ** -0.5)


def test_a_quotient_of_one_value_by_a_name_is_no_number_where_that_is_zero():
    """y/y had been 1 at once; networks have no number at the neurons where y is 0."""

    @tp.program
    def wrong(x: tp.Vector):
        y = tp.relu(x)
        return tp.avg(y / y * x**2)

    with pytest.raises(tp.NoLimitError, match="1/relu"):
        tp.derive(wrong)
    assert np.isnan(wrong.run(n=8, x=[1, -1, 1, 1, -1, 1, 1, 1])["return"])

    @tp.program
    def right(x: tp.Vector):
        y = tp.exp(x)
        return tp.avg(y / y * x**2)

    assert tp.derive(right).evaluate()["return"].value == 1


def test_forms_with_decimal_coefficients_are_seen():
    """1 + |y|/r with a decimal r: the derivative of y/(1 + max(y/r, −y/r)) had been asked for without an end."""

    def function(y):
        r = tp.sqrt(tp.avg(y**2) + 0.1)
        return y / (1 + tp.maximum(y / r, -y / r))

    limit = tp.derive(under(function), tp.Kernels(train=("v",)))
    size = float(X[0] @ X[0])
    r = mpmath.sqrt(size + 0.1)
    expected = 2 * mpmath.quad(
        lambda y: (y / (1 + y / r)) ** 2 * mpmath.npdf(y, 0, mpmath.sqrt(size)), [0, 1, 12 * mpmath.sqrt(size)]
    )
    assert limit.evaluate(X).nngp[0, 0] == pytest.approx(float(expected), rel=1e-7)


def test_functions_that_are_no_number_at_a_place_have_no_parity():
    import sympy

    from tplimits.program.nodes.functions import step

    x = sympy.Symbol("x", real=True)
    assert parity(sympy.tanh(sympy.log(step(x))), x) is None


def drift_of(weight):
    """Of x + Σ weight(logit) V x, the logit of order n^(-1/2)."""

    @tp.block
    def subject(x: tp.State["token"], WK: tp.Matrix, WV: tp.Matrix, WQ: tp.Matrix):
        logit = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) + 0.3 / tp.sqrt(tp.n)
        weights = weight(logit)
        return x + tp.sum(weights * (WV @ x).rename(token="key"), over="key")

    return tp.derive(subject, tp.Proportional()).drift_estimate_at([[1, 0.3], [0.3, 1]]).value


def test_blocks_know_that_the_larger_of_a_logit_and_its_negative_is_its_modulus():
    """Its two arguments had been two unknowns, and a root of it one of what may be negative."""
    assert (drift_of(lambda y: tp.maximum(y, -y) ** 1.5 / tp.n ** (1 / 4)) == 0).all()  # of order 1/n
    modulus, larger = drift_of(tp.abs), drift_of(lambda y: tp.maximum(y, -y))
    assert larger == pytest.approx(modulus) and (abs(modulus - drift_of(tp.relu)) > 0.1).any()
    # Σ_νμ E |Y_ν + 0.3||Y_μ + 0.3| V_νμ of the two keys, Y of covariance V
    V = np.array([[1, 0.3], [0.3, 1]])
    Y = np.random.default_rng(0).multivariate_normal([0.3, 0.3], V, 200_000)
    assert modulus[0, 0] == pytest.approx(np.mean(np.einsum("ai,aj,ij->a", abs(Y), abs(Y), V)), abs=0.03)
