"""The same block written in other ways gives the same canonical terms."""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped
import sympy
from shaped import logits

import tplimits as tp

PROPORTIONAL = tp.Proportional()


def same(a, b):
    return not a.drift_form - b.drift_form and not a.diffusion_form - b.diffusion_form


@tp.block
def exponentials(y: tp.State["pos"], B: tp.Matrix, K: tp.Matrix["r", "n"], Q: tp.Matrix["r", "n"], *, γ, τ0):
    """Softmax by hand, other names, temperature inside the queries, values centred first."""
    e = tp.exp(tp.avg((Q @ y / τ0) * (K @ y).rename(pos="other")) * tp.sqrt(tp.width("r") / tp.n))
    v = B @ y
    mean = tp.mean(v.rename(pos="another"), over="another")
    mixed = tp.sum(e * ((B @ y.rename(pos="other")) - mean), over="other") / tp.sum(e, over="other")
    return γ * (mixed + v) + y * tp.sqrt((1 - γ) * (1 + γ))


@tp.block
def with_identity_matrix(
    x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0
):
    v = (WV @ x).rename(token="key")
    A = tp.softmax(logits(WQ @ x, (WK @ x).rename(token="key"), τ0), over="key")
    shaping = tp.constant(np.eye(3) - np.ones((3, 3)) / 3, axes=("token", "key"))
    return tp.sqrt(1 - γ**2) * x + γ * tp.sum((A + shaping) * v, over="key")


@tp.block
def inner_values(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    """The value matrix after the mixing of tokens."""
    key = x.rename(token="key")
    A = tp.softmax(logits(WQ @ x, WK @ key, τ0), over="key")
    return tp.sqrt(1 - γ**2) * x + γ * (WV @ (x + tp.sum(A * key, over="key") - tp.mean(key, over="key")))


def test_attention_with_exponentials():
    wanted = tp.derive(shaped.shaped_attention, PROPORTIONAL)
    assert same(tp.derive(exponentials, PROPORTIONAL), wanted)


def test_attention_with_the_value_matrix_last():
    assert same(tp.derive(inner_values, PROPORTIONAL), tp.derive(shaped.shaped_attention, PROPORTIONAL))


def test_attention_with_an_identity_matrix():
    wanted = tp.derive(shaped.shaped_attention.bind(token=3), PROPORTIONAL)
    assert same(tp.derive(with_identity_matrix, PROPORTIONAL), wanted)


def test_relu_in_three_nodes_and_by_other_functions():
    @tp.block
    def three_nodes(x: tp.State["token"], W2: tp.Matrix, W1: tp.Matrix, *, γ, c_plus, c_minus):
        h = W1 @ x
        positive = tp.maximum(h, 0) * (1 + c_plus / tp.sqrt(tp.n))
        negative = -tp.relu(-h)
        s = positive + negative + c_minus / tp.sqrt(tp.n) * negative
        c = 2 / ((1 + c_plus / tp.sqrt(tp.n)) ** 2 + (1 + c_minus / tp.sqrt(tp.n)) ** 2)
        return γ * (W2 @ (tp.sqrt(c) * s)) + x * tp.sqrt(1 - γ**2)

    @tp.block
    def absolute(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
        u = W1 @ (3 * x)
        even = (c_plus - c_minus) / tp.sqrt(tp.n) * abs(u) / 2
        odd = (1 + (c_plus + c_minus) / (2 * tp.sqrt(tp.n))) * u
        scale = tp.expect(lambda g: shaped.shaped_relu(g, c_plus, c_minus) ** 2)
        return tp.sqrt(1 - γ**2) * x + γ / tp.sqrt(9 * scale) * (W2 @ odd + W2 @ even)

    wanted = tp.derive(shaped.relu_resnet, PROPORTIONAL)
    assert same(tp.derive(three_nodes, PROPORTIONAL), wanted)
    assert same(tp.derive(absolute, PROPORTIONAL), wanted)


@pytest.mark.parametrize("write", ["softmax of a bias", "transposed", "times ones"])
def test_masks(write):
    mask = np.tril(np.ones((4, 4)))

    @tp.block
    def masked(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        y = logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        v = WV @ x
        if write == "softmax of a bias":
            bias = tp.constant(np.where(mask > 0, 0.0, -1e9), axes=("token", "key"))
            A, p = tp.softmax(bias + y, over="key"), tp.softmax(bias, over="key")
        elif write == "transposed":
            seen = tp.constant(mask.T, axes=("key", "token"))
            A = seen * tp.exp(y) / tp.sum(tp.exp(y) * seen, over="key")
            p = tp.constant(mask / mask.sum(axis=1, keepdims=True), axes=("token", "key"))
        else:
            seen = tp.constant(7 * mask, axes=("token", "key"))
            weights = seen * tp.exp(y)
            A, p = weights / tp.sum(weights, over="key"), seen / tp.sum(seen, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum((A - p) * v.rename(token="key"), over="key"))

    assert same(tp.derive(masked, PROPORTIONAL), tp.derive(shaped.masked_attention(mask), PROPORTIONAL))


@pytest.mark.long
def test_identity_and_mask_in_one_array_are_judged_by_numbers():
    """I − p as one array: no normal form of products sees that it cancels; the conditions are judged at random V."""
    mask = np.tril(np.ones((3, 3)))
    p = mask / mask.sum(axis=1, keepdims=True)

    @tp.block
    def one_array(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        y = tp.exp(logits(WQ @ x, (WK @ x).rename(token="key"), τ0)) * tp.constant(mask, axes=("token", "key"))
        A = y / tp.sum(y, over="key") + tp.constant(np.eye(3) - p, axes=("token", "key"))
        return tp.sqrt(1 - γ**2) * x + γ * tp.sum(A * (WV @ x).rename(token="key"), over="key")

    found, wanted = (tp.derive(b, PROPORTIONAL) for b in (one_array, shaped.masked_attention(mask)))
    V = published.random_covariance(3, seed=5)
    assert np.abs(found.drift_at(V, γ=0.3, τ0=1) - wanted.drift_at(V, γ=0.3, τ0=1)).max() < 1e-12
    assert np.abs(found.diffusion_at(V, γ=0.3, τ0=1) - wanted.diffusion_at(V, γ=0.3, τ0=1)).max() < 1e-12


def test_powers_of_n_that_cancel_between_vectors():
    @tp.block
    def large_inside(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
        s = tp.sqrt(tp.n) * shaped.shaped_relu(W1 @ (x / 5), c_plus, c_minus)
        c = tp.expect(lambda g: shaped.shaped_relu(g, c_plus, c_minus) ** 2)
        return tp.sqrt(1 - γ**2) * x + γ * (W2 @ s) / tp.sqrt(c * tp.n / 25)

    assert same(tp.derive(large_inside, PROPORTIONAL), tp.derive(shaped.relu_resnet, PROPORTIONAL))


def test_rectangular_matrices_and_their_transposes():
    @tp.block
    def hidden(x: tp.State["token"], W1: tp.Matrix["k", "n"], W2: tp.Matrix["n", "k"], *, γ, c_plus, c_minus):
        s = shaped.shaped_relu(W1 @ x, c_plus, c_minus)
        c = tp.expect(lambda g: shaped.shaped_relu(g, c_plus, c_minus) ** 2)
        return tp.sqrt(1 - γ**2) * x + γ * (W2 @ s) / tp.sqrt(c)

    @tp.block
    def transposed(x: tp.State["token"], W1: tp.Matrix["n", "k"], W2: tp.Matrix["k", "n"], *, γ, c_plus, c_minus):
        ratio = tp.sqrt(tp.width("k") / tp.n)
        s = shaped.shaped_relu(ratio * (W1.T @ x), c_plus, c_minus)
        c = tp.expect(lambda g: shaped.shaped_relu(g, c_plus, c_minus) ** 2)
        return tp.sqrt(1 - γ**2) * x + γ * (W2.T @ s) / ratio / tp.sqrt(c)

    wanted = tp.derive(hidden, PROPORTIONAL)
    assert same(tp.derive(transposed, PROPORTIONAL), wanted)
    γ, ratio = sympy.Symbol("γ", real=True), sympy.Symbol("(k/n)", positive=True)
    isotropic = 2 * γ**2 - γ**4 + γ**4 / ratio
    assert not wanted.diffusion_form - published.SIGMA_LIN.scaled(isotropic)


def test_numbers_bound_before_or_given_after():
    V = published.random_covariance(3, seed=6)
    free = tp.derive(shaped.shaped_attention, PROPORTIONAL)
    bound = tp.derive(shaped.shaped_attention.bind(γ=0.5, τ0=2, token=3), PROPORTIONAL)
    assert np.abs(free.drift_at(V, γ=0.5, τ0=2) - bound.drift_at(V)).max() < 1e-14
    assert np.abs(free.diffusion_at(V, γ=0.5, τ0=2) - bound.diffusion_at(V)).max() < 1e-14


def test_expressions_are_the_canonical_terms_written_out():
    sde = tp.derive(shaped.shaped_attention, PROPORTIONAL)
    V = published.random_covariance(2, seed=7)
    drift = sde.drift.subs({sympy.Symbol("m", integer=True, positive=True): 2}).doit()
    α, β = (sympy.Symbol(s, integer=True) for s in "αβ")
    base = sympy.IndexedBase("V", real=True)
    values = {base[i + 1, j + 1]: V[i, j] for i in range(2) for j in range(2)}
    numbers = {sympy.Symbol("γ", real=True): 0.4, sympy.Symbol("τ0", real=True): 0.8}
    found = float(drift.subs({α: 1, β: 2}).subs(values).subs(numbers))
    assert abs(found - sde.drift_at(V, γ=0.4, τ0=0.8)[0, 1]) < 1e-12
