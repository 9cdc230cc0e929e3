"""Weights that read one logit each: their means by quadrature, against integrals of products and against draws."""

from __future__ import annotations

import bent
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

import tplimits as tp

V = bent.V


def branch(function):
    """x + g Σ F v/√n with F a function of logits of order 1."""

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix["k", "n", "head"], WK: tp.Matrix["k", "n", "head"],
                  WV: tp.Matrix["n", "n", "head"], *, g):  # fmt: skip
        S = tp.sqrt(tp.width("k")) * tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
        A = tp.sum(function(S) * (WV @ x).rename(token="key"), over="key")
        return x + g / tp.sqrt(tp.n) * tp.sum(A, over="head")

    return attention


def mean_products(f, V, nodes=None):
    """Σ_νκ E[f(S_αν) f(S_βκ)] V_νκ, Cov(S_αν, S_βκ) = V_αβ V_νκ."""
    x, w = nodes or hermegauss(160)
    found = np.zeros_like(V)
    for α, β, ν, κ in np.ndindex(*V.shape, *V.shape):
        first, second = V[α, α] * V[ν, ν], V[β, β] * V[κ, κ]
        both = V[α, β] * V[ν, κ] / np.sqrt(first)
        u = np.sqrt(first) * x[:, None]
        inner = f(both * x[:, None] + np.sqrt(max(second - both**2, 0)) * x)
        found[α, β] += (w[:, None] * w * f(u) * inner).sum() / w.sum() ** 2 * V[ν, κ]
    return found


CASES = {
    "tanh": (tp.tanh, np.tanh),
    "with a constant": (lambda S: 0.5 + tp.sin(S) * S, lambda s: 0.5 + np.sin(s) * s),
    "of the number of tokens": (lambda S: tp.exp(S / tp.size("key")), lambda s: np.exp(s / 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_drift_holds_no_error(name):
    function, plain = CASES[name]
    sde = tp.derive(branch(function), tp.Proportional())
    assert sde.limit.weights
    value, error = sde.drift_estimate_at(V, g=0.8, head=2)
    np.testing.assert_allclose(value, 2 * 0.64 * mean_products(plain, V), rtol=1e-7)
    wrong = 2 * 0.64 * mean_products(plain, V * (0.9 + 0.1 * np.eye(3)))
    assert np.abs(value - wrong).max() > 1e-3
    assert not error.any() and not sde.simulate(V, T=0.1, dt=0.1, paths=2, g=0.1, head=2).mean().error.any()


def test_steep_functions_of_a_logit_with_itself_hold_no_error():
    """The series in the correlation has not settled at 1, where the mean is one integral."""
    value, error = tp.derive(branch(lambda S: tp.tanh(2 * S)), tp.Proportional()).drift_estimate_at(V, g=0.8, head=2)
    x = np.linspace(-9, 9, 241)
    steps = x, np.exp(-(x**2) / 2)
    wanted, wrong = (2 * 0.64 * mean_products(lambda s, c=c: np.tanh(c * s), V, steps) for c in (2, 1.9))
    np.testing.assert_allclose(value, wanted, rtol=1e-9)
    assert not error.any() and np.abs(value - wrong).max() > 1e-2


def layer(inside, tokens=None):
    """x + g U f(…)/√n with f a function of two dense layers at one neuron."""

    @tp.block
    def block(x: tp.State["token"], Z: tp.Matrix, U: tp.Matrix, W: tp.Matrix, *, g):
        h = W @ x
        if tokens is not None:
            h = tp.sum(tp.constant(tokens, axes=("token", "other")) * h.rename(token="other"), over="other")
        return x + g / tp.sqrt(tp.n) * (U @ inside(h, Z @ x))

    return tp.derive(block, tp.Proportional())


TAPS = np.array([[0.5, 0.2, 0], [0.1, 1, -0.3], [0, 0.4, 0.6]])


@pytest.mark.parametrize(
    ("inside", "tokens", "plain", "law"),
    [
        (lambda h, z: tp.gelu(0.6 * h + 0.8 * z), None, lambda h, z: tp.gelu(z), V),
        (lambda h, z: h + z + tp.tanh(h + z), None, lambda h, z: z + tp.tanh(z), 2 * V),
        (lambda h, z: tp.relu(h + z), TAPS, lambda h, z: tp.relu(z), TAPS @ V @ TAPS.T + V),
        (lambda h, z: (h - 2 * z) * tp.sigmoid(4 * z - 2 * h), TAPS, lambda h, z: z * tp.sigmoid(-2 * z),
         TAPS @ V @ TAPS.T + 4 * V),
    ],
    ids=["of a sum", "beside the sum", "of mixed tokens", "of multiples"],
)  # fmt: skip
def test_functions_of_one_sum_of_layers_are_functions_of_one_layer(inside, tokens, plain, law):
    value, error = layer(inside, tokens).drift_estimate_at(V, g=0.8)
    np.testing.assert_allclose(value, layer(plain).drift_at(law, g=0.8), rtol=1e-7)
    assert not error.any() and np.abs(value - layer(plain).drift_at(0.95 * law, g=0.8)).max() > 1e-3


def test_slopes_of_heads_stand_inside_of_the_function():
    slopes = np.array([0.5, 1.5])
    sloped = branch(lambda S: tp.tanh(tp.constant(slopes, axes=("head",)) * S))
    value, error = tp.derive(sloped, tp.Proportional()).drift_estimate_at(V, g=0.8, head=2)
    wanted = sum(0.64 * mean_products(lambda s, c=c: np.tanh(c * s), V) for c in slopes)
    np.testing.assert_allclose(value, wanted, rtol=1e-6)
    assert not error.any() and np.abs(value - 2 * 0.64 * mean_products(np.tanh, V)).max() > 1e-2


def test_functions_of_two_sums_are_drawn():
    error = layer(lambda h, z: tp.tanh(h + z) * h).drift_estimate_at(V, g=0.8).error
    assert (error > 0).all()


def test_the_mean_of_one_function():
    """√(1 − γ²) x + γ (1 + cos(S_αα)/n) v has the drift γ² (E cos S_αα + E cos S_ββ) V_αβ."""

    @tp.block
    def gated(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix, WV: tp.Matrix, *, γ):
        S = tp.sqrt(tp.n) * tp.avg((A @ x) * (B @ x))
        return tp.sqrt(1 - γ**2) * x + γ * (1 + tp.cos(S) / tp.n) * (WV @ x)

    value, error = tp.derive(gated, tp.Proportional()).drift_estimate_at(V, γ=0.6)
    means = np.exp(-(np.diag(V) ** 2) / 2)
    np.testing.assert_allclose(value, 0.36 * V * (means[:, None] + means), rtol=1e-8)
    assert not error.any()


def test_more_pairs_than_are_worth_it_are_drawn():
    """Of m tokens that are alike b_00 counts pairs of places, a polynomial of second degree in m."""
    sde, m = tp.derive(branch(tp.tanh), tp.Proportional()), 17
    W = 0.3 + 0.7 * np.eye(m)
    value, error = sde.drift_estimate_at(W, g=0.8, head=1)
    one, two, three = (0.64 * mean_products(np.tanh, W[:k, :k])[0, 0] for k in (1, 2, 3))
    wanted = one + (m - 1) * (two - one) + (m - 1) * (m - 2) / 2 * (three - 2 * two + one)
    assert abs(value[0, 0] - wanted) < 5 * error[0, 0] < 0.05 * wanted and (error > 0).all()


@pytest.mark.parametrize("function", [tp.tanh, lambda S: tp.softmax(S, over="key")], ids=["one", "several"])
def test_a_constant_inside_of_a_function_of_logits_is_asked_for(function):
    @tp.block
    def scaled(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix, WV: tp.Matrix, *, c):
        S = c * tp.sqrt(tp.n) * tp.avg((A @ x) * (B @ x).rename(token="key"))
        return x + tp.sum(function(S) * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    with pytest.raises(tp.EvaluationError, match="`c` has no value: give c="):
        tp.derive(scaled, tp.Proportional()).drift_at(V)


def test_a_mean_that_vanishes_is_zero():
    """√(1 − γ²) x + γ Σ (v + tanh(S)/n v) has no drift, and noise about that of v alone: nothing is drawn."""

    @tp.block
    def odd(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix, WV: tp.Matrix, *, γ):
        S, v = tp.sqrt(tp.n) * tp.avg((A @ x) * (B @ x).rename(token="key")), WV @ x
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(tp.tanh(S) / tp.n * v.rename(token="key"), over="key"))

    value, error = tp.derive(odd, tp.Proportional()).drift_estimate_at(V, γ=0.6)
    assert np.abs(value).max() < 1e-12 and not error.any()


def test_a_maximum_is_a_sum_of_functions_of_one_scalar():
    """max(u, w) = (u + w + |u − w|)/2, and E |d d′| is known of Gaussian differences d."""
    mix = np.array([[0.0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]])

    @tp.block
    def neighbours(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        h = W @ x
        mixed = tp.sum(tp.constant(mix, axes=("token", "key")) * h.rename(token="key"), over="key")
        return x + 3 * (U @ tp.maximum(h, mixed)) / tp.sqrt(tp.n)

    def wanted(added, taken):
        sums, differences = added @ V @ added.T, taken @ V @ taken.T
        σ = np.sqrt(np.diag(differences))
        ρ = np.clip(differences / np.outer(σ, σ), -1, 1)
        return 9 * (sums + np.outer(σ, σ) * 2 / np.pi * (np.sqrt(1 - ρ**2) + ρ * np.arcsin(ρ))) / 4

    value, error = tp.derive(neighbours, tp.Proportional()).drift_estimate_at(V)
    assert np.abs(value - wanted(np.eye(3) + mix, np.eye(3) - mix)).max() < 1e-9 and not error.any()
    assert np.abs(value - wanted(np.eye(3) + mix, np.eye(3) - mix.T)).max() > 0.1


def weighed(function):
    """x + Σ f(S) v/√n with S = √n avg(q k)."""

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        S = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
        return x + tp.sum(function(S) * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    return tp.derive(block, tp.Proportional())


@pytest.mark.parametrize("V", [[[1, 0.5], [0.5, 2]], [[1.5, 0], [0, 1.5]], [[3.0, 0.4], [0.4, 1.5]]])
def test_functions_that_grow_as_exponentials_do(V):
    V = np.array(V, dtype=float)
    size = np.einsum("aa,gg->ag", V, V)
    # E (exp S − 1)(exp S′ − 1), of a, g and of c, d
    between = np.einsum("ac,gd->agcd", V, V)
    one, other = size[:, :, None, None], size[None, None]
    mean = np.exp((one + other) / 2 + between) - np.exp(one / 2) - np.exp(other / 2) + 1
    expected = np.einsum("gd,agcd->ac", V, mean)
    found = weighed(lambda S: tp.exp(S) - 1).drift_estimate_at(V)
    np.testing.assert_allclose(found.value, expected, rtol=1e-9)
    assert not found.error.any()


SINGULAR = {
    "logarithm": (lambda Z: 2 * Z * tp.log(abs(Z)), lambda z: 2 * z * np.log(np.abs(z))),
    "of an inverse": (lambda Z: tp.tanh(1 / Z), lambda z: np.tanh(1 / z)),
    "flat at 0": (lambda Z: Z * tp.exp(-1 / abs(Z)), lambda z: z * np.exp(-1 / np.abs(z))),
    "removable": (lambda Z: Z / (Z + Z**3), lambda z: 1 / (1 + z**2)),
    "removable by a function": (lambda Z: tp.tanh(Z) / (Z + Z * tp.exp(Z)), lambda z: np.tanh(z) / (z + z * np.exp(z))),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_functions_without_powers_at_zero(name):
    """Of order 1 as weights: their mean squares are finite, though no series at 0 has them."""
    function, plain = SINGULAR[name]
    W = np.array([[1.0, 0.3], [0.3, 1.2]])
    x = np.linspace(-9, 9, 600)
    wanted, wrong = (mean_products(plain, c * W, (x, np.exp(-(x**2) / 2))) / c for c in (1, 1.1))
    value, error = weighed(function).drift_estimate_at(W)
    np.testing.assert_allclose(value, wanted, rtol=4e-3)
    assert (np.abs(wrong - wanted) > 0.02 * wanted).any() and (error < 1e-2 * value).all()


def test_a_logarithm_of_a_logit():
    """Cov(log|g|, log|g′|) = ½ arcsin² ρ, and E log|σ g| = log σ − (γ + log 2)/2."""
    W = np.array([[1.0, 0.3], [0.3, 1.2]])
    value, error = weighed(lambda Z: tp.log(abs(Z))).drift_estimate_at(W)
    size = np.outer(np.diag(W), np.diag(W)) ** 0.5
    means = np.log(size) - (np.euler_gamma + np.log(2)) / 2
    correlation = np.clip(np.einsum("ac,gd->agcd", W / size, W / size), -1, 1)
    both = np.arcsin(correlation) ** 2 / 2 + np.einsum("ag,cd->agcd", means, means)
    wanted = np.einsum("gd,agcd->ac", W, both)
    np.testing.assert_allclose(value, wanted, rtol=1e-8)
    assert np.abs(value - means @ W @ means.T).max() > 0.3 and not error.any()


def test_functions_of_n_and_a_logit_alone():
    """log|√n L|/n with L an average is log|Z|/n, and tanh(1/(√n L)) tanh(1/Z): nothing else brings the powers out."""
    W = np.array([[1.0, 0.3], [0.3, 1.2]])

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        L, v = tp.avg((WQ @ x) * (WK @ x).rename(token="key")), WV @ x
        weights = tp.tanh(1 / (tp.sqrt(tp.n) * L)) / tp.sqrt(tp.n) + tp.log(abs(tp.sqrt(tp.n) * L)) / tp.n
        return 0.8 * x + 0.6 * v + 0.6 * tp.sum(weights * v.rename(token="key"), over="key")

    x = np.linspace(-9, 9, 600)
    size = np.outer(np.diag(W), np.diag(W)) ** 0.5
    # E log|σ g| = log σ − (γ + log 2)/2
    logs = np.log(size) - (np.euler_gamma + np.log(2)) / 2
    odd = mean_products(lambda z: np.tanh(1 / z), W, (x, np.exp(-(x**2) / 2)))
    wanted = 0.36 * (odd + logs @ W + (logs @ W).T)
    value = tp.derive(block, tp.Proportional()).drift_at(W)
    np.testing.assert_allclose(value, wanted, atol=4e-3)
    assert np.abs(value - 0.36 * odd).max() > 0.1


SIZES = {
    "sign beside a modulus": (tp.sign, tp.abs, lambda s: np.sqrt(2 / np.pi) * s, lambda z: np.sign(z)),
    "curve beside a modulus": (tp.tanh, tp.abs, lambda s: np.sqrt(2 / np.pi) * s, np.tanh),
    "sign beside a wave": (tp.sign, tp.cos, lambda s: np.exp(-(s**2) / 2), lambda z: np.sign(z)),
}


@pytest.mark.parametrize("name", SIZES)
def test_terms_of_two_sizes_that_a_kink_joins(name):
    """√(1 − γ²) x + γ v + γ Σ (f(S)/√n + g(S)/n) v: γ² (E f f′ + E g + E g′); g had been dropped."""
    f, g, mean, plain = SIZES[name]
    W = np.array([[1.0, 0.3], [0.3, 1.2]])

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        S, v = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key")), WV @ x
        weights = f(S) / tp.sqrt(tp.n) + g(S) / tp.n
        return 0.8 * x + 0.6 * v + 0.6 * tp.sum(weights * v.rename(token="key"), over="key")

    x = np.linspace(-9, 9, 600)
    first = 0.36 * mean_products(plain, W, (x, np.exp(-(x**2) / 2)))
    second = 0.36 * mean(np.outer(np.diag(W), np.diag(W)) ** 0.5) @ W
    value = tp.derive(block, tp.Proportional()).drift_at(W)
    np.testing.assert_allclose(value, first + second + second.T, atol=2e-3)
    assert np.abs(value - first).max() > 0.1


@pytest.mark.parametrize("power", [3, pytest.param(5, marks=pytest.mark.long)])
def test_kinks_at_high_powers_of_a_small_scalar_are_met(power):
    """max(S^p, 0.4) − max(−S^p, 0.4) over √n, S = √n L: terms of L³ and more are small before n is, and were none."""
    W = np.array([[1.0, 0.3], [0.3, 1.2]])

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        S, v = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key")), WV @ x
        weights = (tp.maximum(S**power, 0.4) - tp.maximum(-(S**power), 0.4)) / tp.sqrt(tp.n)
        return 0.8 * x + 0.6 * v + 0.6 * tp.sum(weights * v.rename(token="key"), over="key")

    def plain(s):
        return np.maximum(s**power, 0.4) - np.maximum(-(s**power), 0.4)

    x = np.linspace(-12, 12, 900)
    wanted = 0.36 * mean_products(plain, W, (x, np.exp(-(x**2) / 2)))
    value = tp.derive(block, tp.Proportional()).drift_at(W)
    np.testing.assert_allclose(value, wanted, rtol=2e-3)
    assert np.abs(value - 0.9 * wanted).max() > 0.1


def test_kinks_away_from_zero_that_a_kink_at_zero_joins():
    """sign(S)/√n + (max(S, ½) + max(−S, ½))/n: the maxima had been ½ each, their value at S = 0."""
    W = np.array([[1.0, 0.3], [0.3, 1.2]])

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        S, v = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key")), WV @ x
        weights = tp.sign(S) / tp.sqrt(tp.n) + (tp.maximum(S, 0.5) + tp.maximum(-S, 0.5)) / tp.n
        return 0.8 * x + 0.6 * v + 0.6 * tp.sum(weights * v.rename(token="key"), over="key")

    x = np.linspace(-9, 9, 600)
    w = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    signs = 0.36 * mean_products(np.sign, W, (x, w))
    size = np.outer(np.diag(W), np.diag(W)) ** 0.5
    means = np.array([[(w * (np.maximum(s * x, 0.5) + np.maximum(-s * x, 0.5))).sum() for s in row] for row in size])
    value = tp.derive(block, tp.Proportional()).drift_at(W)
    np.testing.assert_allclose(value, signs + 0.36 * (means @ W + (means @ W).T), atol=3e-3)
    assert np.abs(value - signs - 0.36 * 2 * W.sum(axis=0)).max() > 0.1
