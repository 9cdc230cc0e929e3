"""Functions of logits around a constant: F(Y) = f(c + Y) − f(c), c a number or an array, away from kinks of f.

With x′ = √(1 − γ²) x + γ (v + Σ F v), the drift needs f′ and f″ at c alone:
b = γ² [Σ f′_αν f′_βκ E(Y_αν Y_βκ) V_νκ + ½ Σ f″_αν E(Y_αν²) V_νβ + its mirror image], E Y_αν Y_βκ = V_αβ V_νκ/τ0².
"""

from __future__ import annotations

import mpmath
import numpy as np
import published
import pytest
import shaped

import tplimits as tp

V3 = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])
CENTRE = np.array([[1.0, 2.0, 0.3], [-3.0, 4.0, -0.7], [0.5, 1.5, 2.5]])
γ, τ0 = 0.7, 0.8


def attended(function):
    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        Y = shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(function(Y) * v.rename(token="key"), over="key"))

    return block


def expected(first, second, V):
    moments = np.einsum("an,bk,ab,nk,nk->ab", first, first, V, V, V)
    half = np.einsum("an,aa,nn,nb->ab", second, V, V, V) / 2
    return γ**2 / τ0**2 * (moments + half + half.T)


def shift(at):
    array = np.broadcast_to(at, (3, 3))
    return tp.constant(array, axes=("token", "key"))


FUNCTIONS = {
    "relu": (tp.relu, lambda c: max(c, 0)),
    "leaky_relu": (lambda y: tp.leaky_relu(y, 0.2), lambda c: max(c, c / 5)),
    "abs": (tp.abs, abs),
    "clip": (lambda y: tp.clip(y, -1, 3), lambda c: min(max(c, -1), 3)),
    "maximum of two": (lambda y: tp.maximum(y, y**2 / 4), lambda c: max(c, c * c / 4)),
    "where": (lambda y: tp.where(y - 1.2, y**2, tp.sin(y)), lambda c: c * c if c > 1.2 else mpmath.sin(c)),
    "gelu": (tp.gelu, lambda c: c * mpmath.ncdf(c)),
    "softplus": (tp.softplus, lambda c: mpmath.log(1 + mpmath.exp(c))),
    "sigmoid": (tp.sigmoid, lambda c: 1 / (1 + mpmath.exp(-c))),
    "erf": (tp.erf, mpmath.erf),
    "tanh": (tp.tanh, mpmath.tanh),
    "root": (lambda y: tp.sqrt(y + 4), lambda c: mpmath.sqrt(c + 4)),
    "expression": (lambda y: tp.elementwise(lambda u: 1 / (1 + u**2))(y), lambda c: 1 / (1 + c * c)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_around_an_array(name):
    function, exact = FUNCTIONS[name]

    centre = CENTRE + 0.1
    sde = tp.derive(attended(lambda Y: function(shift(centre) + Y) - function(shift(centre))), tp.Proportional())
    first, second = (np.vectorize(lambda c, k=k: float(mpmath.diff(exact, c, k)))(centre) for k in (1, 2))
    V = published.random_covariance(3, 1)
    wanted = expected(first, second, V)
    found = sde.drift_at(V, γ=γ, τ0=τ0)
    assert np.abs(found - wanted).max() < 1e-7 * np.abs(wanted).max()
    assert np.abs(found - expected(first, second + 0.1, V)).max() > 1e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["where", "gelu", "softplus", "sigmoid", "root", "expression"])
@pytest.mark.parametrize("background", [0, -1.5])
def test_around_a_diagonal_array(name, background):
    """An array that is one number off its diagonal has a normal form of its own."""
    function, exact = FUNCTIONS[name]
    centre = background + np.diag([0.7, 1.9, -0.4])
    sde = tp.derive(attended(lambda Y: function(shift(centre) + Y) - function(shift(centre))), tp.Proportional())
    first, second = (np.vectorize(lambda c, k=k: float(mpmath.diff(exact, c, k)))(centre) for k in (1, 2))
    V = published.random_covariance(3, 1)
    wanted = expected(first, second, V)
    assert np.abs(sde.drift_at(V, γ=γ, τ0=τ0) - wanted).max() < 1e-7 * np.abs(wanted).max()
    twin = expected(*(np.where(np.eye(3) > 0, a[0, 1], a) for a in (first, second)), V)  # the diagonal as the rest
    assert np.abs(sde.drift_at(V, γ=γ, τ0=τ0) - twin).max() > 1e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "clip", "maximum of two", "gelu", "softplus"])
@pytest.mark.parametrize("centre", [0.7, -0.6])
def test_around_a_number(name, centre):
    function, exact = FUNCTIONS[name]
    # function(centre) is a float: 0 is told from 1e-17
    sde = tp.derive(attended(lambda Y: function(centre + Y) - function(centre)), tp.Proportional())
    first, second = (np.full((3, 3), float(mpmath.diff(exact, centre, k))) for k in (1, 2))
    V = published.random_covariance(3, 1)
    wanted = expected(first, second, V)
    assert np.abs(sde.drift_at(V, γ=γ, τ0=τ0) - wanted).max() < 1e-7 * max(np.abs(wanted).max(), 0.1)


@pytest.mark.parametrize(
    "function, message",
    [
        (tp.relu, r"of order n\^\(-1/2\): over a depth proportional to n it adds up"),
        (tp.abs, r"of order n\^\(-1/2\): over a depth proportional to n it adds up"),
        (lambda y: tp.maximum(y, -y), r"of order n\^\(-1/2\): over a depth proportional to n it adds up"),
        (tp.sign, "a kink or jump enters the next covariance at order 1"),
    ],
)
def test_at_a_kink(function, message):
    at_zero = np.where(np.eye(3) > 0, 0.0, CENTRE)
    with pytest.raises(tp.NoLimitError, match=message):
        tp.derive(attended(lambda Y: function(shift(at_zero) + Y) - function(shift(at_zero))), tp.Proportional())


def test_a_constant_beside_an_array():
    """A symbolic slope of a function at an array: the message names the repair."""

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        Y = shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        weights = tp.leaky_relu(shift(CENTRE) + Y, γ)
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(weights * v.rename(token="key"), over="key"))

    with pytest.raises(tp.NoLimitError, match=r"constant array times a symbolic constant; give the constant a number"):
        tp.derive(block, tp.Proportional())


def test_the_side_of_a_kink_may_hang_on_a_constant():
    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        Y = shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        weights = tp.relu(τ0 + Y) - tp.relu(τ0)
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(weights * v.rename(token="key"), over="key"))

    with pytest.raises(tp.NoLimitError, match=r"depends on the sign of `τ0`, which is not known; give `τ0` a number"):
        tp.derive(block, tp.Proportional())
    V = published.random_covariance(3, 1)
    ones = np.ones((3, 3))
    wanted = expected(ones, 0 * ones, V)
    assert np.abs(tp.derive(block.bind(τ0=τ0), tp.Proportional()).drift_at(V, γ=γ) - wanted).max() < 1e-12
    below = tp.derive(block.bind(τ0=-τ0), tp.Proportional())
    assert not below.drift_form


def test_powers_of_n_that_cancel_leave_no_orders_to_be_known():
    """n (cos Y − 1 + Y²/2) is n Y⁴/24: without the n of each addend, which would ask for the order n^(−5)."""

    @tp.block
    def block(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix, *, γ, τ0):
        Y = tp.avg((Q @ x) * (K @ x).rename(token="key")) / τ0
        F = tp.n * (tp.cos(Y) - 1 + Y**2 / 2)
        v = W @ x
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))

    V, γ, τ0 = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]]), 0.7, 0.8
    fourth = 3 * (np.diag(V)[:, None] * np.diag(V)) ** 2 / τ0**4 / 24  # E n² Y⁴/24
    expected = γ**2 * (fourth @ V + V @ fourth.T)
    assert tp.derive(block, tp.Proportional()).drift_at(V, γ=γ, τ0=τ0) == pytest.approx(expected, rel=1e-12)


ROWS = np.array([[0.0, -1.0, -2.0], [0.5, 0.0, -40.0], [15.0, 0.0, 30.0]])


@pytest.mark.parametrize("rows", [(0, 0, 0), (-40, 0, 100), (-800, 900, -1e9)])
def test_a_softmax_is_the_same_for_shifted_rows(rows):
    """Constants of a row count beside one another alone, however small or large e to their power is."""
    biases = ROWS + np.array(rows)[:, None]

    def weights(Y):
        bias = tp.constant(biases, axes=("token", "key"))
        return tp.softmax(Y + bias, over="key") - tp.softmax(bias, over="key")

    sde = tp.derive(attended(weights), tp.Proportional())
    p = np.exp(biases - biases.max(axis=1, keepdims=True))
    drift, full = published.numpy_masked_attention(V3, p / p.sum(axis=1, keepdims=True), γ, τ0)
    np.testing.assert_allclose(sde.drift_at(V3, γ=γ, τ0=τ0, ratios={"k": 1}), drift, rtol=1e-8, atol=1e-10)
    found = sde.diffusion_at(V3, γ=γ, τ0=τ0, ratios={"k": 1})
    np.testing.assert_allclose(found, published.packed(full), rtol=1e-8, atol=1e-10)
    twin = published.numpy_masked_attention(V3, np.full((3, 3), 1 / 3), γ, τ0)[0]
    assert np.abs(drift - twin).max() > 0.1


@pytest.mark.long
@pytest.mark.parametrize("power", [1, 2])
def test_constants_of_heads_far_below_zero(power):
    """A softmax over heads and keys, and its square: −500 added to all logits changes nothing."""

    def derived(beyond):
        @tp.block
        def block(x: tp.State["token"], W: tp.Matrix["n", "n", "head"], WV: tp.Matrix, *, g):
            s = tp.constant(np.array([0.0, -1.0]) + beyond, axes=("head",))
            Y, v = tp.avg((W @ x) * x.rename(token="key")), WV @ x
            A = tp.softmax(Y + s, over=("head", "key")) ** power - tp.softmax(s, over="head") ** power / 3**power
            return v + g * tp.sum(A * v.rename(token="key"), over=("head", "key"))

        return tp.derive(block.bind(token=3), tp.Proportional()).drift_at(V3, g=0.7)

    np.testing.assert_allclose(derived(-500.0), derived(0.0), rtol=1e-9)
    assert np.abs(derived(0.0)).max() > 0.05
