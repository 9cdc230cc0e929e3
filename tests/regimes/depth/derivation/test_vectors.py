"""Gaussian vectors beside the state: biases and a memory, against kernels at moved V, networks and duality."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.depth.tangent.finite.backpropagation import Network

V = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])
PROPORTIONAL = tp.Proportional()
WIDE, NARROW = tp.init(mean=0, std=2), tp.init(mean=0, std=0.5)


@tp.block
def plain(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, g):
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(W @ x))


@tp.block
def biased(x: tp.State["token"], U: tp.Matrix, b: tp.Vector, W: tp.Matrix, *, g, s):
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(W @ x + s * b))


@tp.block
def by_token(x: tp.State["token"], b: tp.Vector["token"], U: tp.Matrix, W: tp.Matrix, *, g, s):
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(W @ x + s * b))


@tp.block
def wide(x: tp.State["token"], U: tp.Matrix, W: tp.Matrix, b: tp.Vector = WIDE, *, g, s):
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(W @ x + s / 2 * b))


@pytest.mark.parametrize(
    ("block", "law"),
    [(biased, np.ones((3, 3))), (by_token, np.eye(3)), (wide, np.ones((3, 3)))],
    ids=["one", "by token", "of its own size"],
)
def test_a_bias_inside_of_an_activation_adds_its_variance(block, law):
    value, error = tp.derive(block, PROPORTIONAL).drift_estimate_at(V, g=0.8, s=0.7)
    kernel = tp.derive(plain, PROPORTIONAL)
    np.testing.assert_allclose(value, kernel.drift_at(V + 0.49 * law, g=0.8), rtol=1e-9)
    assert not error.any() and np.abs(value - kernel.drift_at(V + 0.7 * law, g=0.8)).max() > 0.01


def test_a_vector_behind_a_matrix_has_its_own_size():
    @tp.block
    def memory(x: tp.State["token"], mem: tp.Vector["mem"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, Z: tp.Matrix):
        Y = tp.avg((WQ @ x) * (WK @ mem))
        A = tp.softmax(Y, over="mem") - 1 / tp.size("mem")
        out = tp.sum((2 * A + 1 / tp.sqrt(tp.n)) * (WV @ mem), over="mem")
        return 0.8 * x + 0.6 * (Z @ x) + out

    # Σ_μ (1 + 4 n E A_αμ A_βμ), A_αμ = (Y_αμ − mean)/3 and n E Y_αμ Y_βν = V_αβ δ_μν
    wanted = 3 + 4 * V * (3 - 1) / 9
    np.testing.assert_allclose(tp.derive(memory, PROPORTIONAL).drift_at(V, mem=3), wanted, rtol=1e-12)


def test_logits_of_order_one_hold_biases_of_queries_and_keys():
    """Cov(Y_αβ, Y_δω) = (V_αδ + s²)(V_βω + r²): that of dense layers alone at a V of its own for queries and keys."""

    @tp.block
    def attention(x: tp.State["token"], r: tp.Vector, WQ: tp.Matrix, s: tp.Vector, WK: tp.Matrix, WV: tp.Matrix):
        q, k = WQ @ x + 2 * s, (WK @ x + r / 2).rename(token="key")
        S = tp.sqrt(tp.n) * tp.avg(q * k)
        return x + tp.sum(tp.sin(S) * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    @tp.block
    def of_their_own_sizes(
        x: tp.State["token"],
        WQ: tp.Matrix,
        WK: tp.Matrix,
        WV: tp.Matrix,
        r: tp.Vector = NARROW,
        s: tp.Vector = WIDE,
    ):
        q, k = WQ @ x + s, (WK @ x + r).rename(token="key")
        S = tp.sqrt(tp.n) * tp.avg(q * k)
        return x + tp.sum(tp.sin(S) * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    queries, keys, wanted, wrong = V + 4, V + 0.25, np.zeros((3, 3)), np.zeros((3, 3))
    for α, β, ν, κ in np.ndindex(3, 3, 3, 3):
        for found, Q in ((wanted, queries), (wrong, V)):
            half = (Q[α, α] * keys[ν, ν] + Q[β, β] * keys[κ, κ]) / 2
            found[α, β] += np.exp(-half) * np.sinh(Q[α, β] * keys[ν, κ]) * V[ν, κ]
    for block in (attention, of_their_own_sizes):
        value = tp.derive(block, PROPORTIONAL).drift_at(V)
        np.testing.assert_allclose(value, wanted, rtol=1e-7)
        assert np.abs(value - wrong).max() > 0.1


@tp.block
def shifted(x: tp.State["token"], W: tp.Matrix, b: tp.Vector = WIDE, z: tp.Vector = 0, *, γ, c):
    return tp.sqrt(1 - γ**2) * x + γ * (W @ x + z) + c * b / tp.sqrt(tp.n)


def test_biases_have_gradients():
    """∂L/∂b is c/√n times that of the next state, whatever the variance of b."""
    tangent = tp.derive(shifted, tp.Proportional(tangent=True))
    assert str(tangent.start("b")) == "c**2" and str(tangent.drift.V) == "4*c**2"
    with pytest.raises(tp.NoLimitError, match="`z`, a vector of one number"):
        tangent.start("z")


def test_backpropagation_reaches_them():
    """|∂L/∂b|² = c² |Σ_α g_α|²/n of the last layer, g the gradient of the next state."""
    x = np.random.default_rng(3).standard_normal((5, 2, 6))
    network = Network(shifted, 1, given={"γ": 0.5, "c": 0.8})
    found = network.squared_norms(x, np.random.default_rng, np.random.default_rng(7))
    g = np.random.default_rng(7).standard_normal(x.shape)
    np.testing.assert_allclose(found["b", 0], 0.64 * (g.sum(axis=1) ** 2).sum(axis=-1) / 6, rtol=1e-12)


def test_what_is_no_gaussian_is_refused_by_name():
    @tp.block
    def flat(x: tp.State["token"], W: tp.Matrix, b: tp.Vector.uniform(-1, 1)):
        return x + (W @ x + b) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="Gaussian ones of mean zero are covered"):
        tp.derive(flat, PROPORTIONAL)


def test_a_mean_that_is_added_to_the_state_leaves_it_no_function_of_the_covariance():
    @tp.block
    def tilted(x: tp.State["token"], W: tp.Matrix, b: tp.Vector = 1):
        return x + (W @ x + b) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="sums over the neurons of the state, so that V is not Markov"):
        tp.derive(tilted, PROPORTIONAL)


OFF_CENTRE = tp.init(mean=0.7, std=2)


@tp.block
def off_centre(x: tp.State["token"], U: tp.Matrix, W: tp.Matrix, b: tp.Vector = OFF_CENTRE, *, g):
    return x + g / tp.sqrt(tp.n) * (U @ tp.tanh(W @ x + b + 0.4))


def test_a_bias_with_a_mean_is_one_around_it():
    """g² E tanh(u + b + .4) tanh(u′ + b + .4) by quadrature: u + b has covariance V + 4, around .7, and not −.7."""
    found = tp.derive(off_centre, PROPORTIONAL).drift_at(V, g=0.8)
    nodes = np.linspace(-9, 9, 601)  # equal steps: exact to e^(−30)
    weights = np.exp(-(nodes**2) / 2)
    root = np.linalg.cholesky(V[:2, :2] + 4)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"))

    def mean(around):
        u = np.tanh(np.einsum("ab,bij->aij", root, z) + around)
        return 0.64 * np.einsum("aij,bij,i,j->ab", u, u, weights, weights) / weights.sum() ** 2

    np.testing.assert_allclose(found[:2, :2], mean(1.1), rtol=1e-6)
    assert np.abs(found[:2, :2] / mean(-0.3) - 1).max() > 0.02


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        (lambda h: h / tp.abs(h) * h, tp.abs),
        (lambda h: h * h / tp.sqrt(h**2 + 4 * h**2), lambda h: tp.abs(h) / 5**0.5),
        (lambda h: h / tp.abs(h), tp.sign),
        (lambda h: h**2 / tp.abs(h) + h**2, lambda h: tp.abs(h) + h**2),
    ],
    ids=["u²/|u|", "u²/√(5 u²)", "u/|u|", "u²/|u| + u²"],
)
def test_a_sign_is_its_own_inverse(spelled, plain):
    def block(f):
        @tp.block
        def layer(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
            return x + (U @ f(W @ x)) / tp.sqrt(tp.n)

        return tp.derive(layer, PROPORTIONAL)

    found = block(spelled).drift_at(V)
    np.testing.assert_allclose(found, block(plain).drift_at(V), rtol=1e-12)
    assert np.abs(found - block(tp.relu).drift_at(V)).max() > 0.1


def test_what_has_a_pole_is_no_sign():
    @tp.block
    def layer(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        h = W @ x
        return x + (U @ (h / tp.abs(h) ** 2)) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError):
        tp.derive(layer, PROPORTIONAL)
