"""Sublayers of one layer that share matrices: each sees the state, and what they share is in the covariance alone."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.4], [0.4, 1.3]])
L = np.linalg.cholesky(V)


def attention(y, Q, K, W):
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ y) * (K @ y).rename(token="key")), over="key")
    return tp.sum(A * (W @ y).rename(token="key"), over="key") / tp.sqrt(tp.n)


def perceptron(y, W, U, f=tp.relu):
    return U @ f(W @ y) / tp.sqrt(tp.n)


@tp.block
def perceptron_twice(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    y = x + perceptron(x, W, U)
    return y + perceptron(y, W, U)


@tp.block
def one_up(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, Z: tp.Matrix):
    y = x + perceptron(x, W, U)
    return y + perceptron(y, W, Z, tp.tanh)


@tp.block
def one_down(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, Z: tp.Matrix):
    y = x + perceptron(x, W, U)
    return y + perceptron(y, Z, U)


@tp.block
def attention_twice(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix):
    y = x + attention(x, Q, K, W)
    return y + attention(y, Q, K, W)


@tp.block
def values_and_image(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix):
    y = x + attention(x, Q, K, W)
    return y + W @ y / tp.sqrt(tp.n)


@tp.block
def layer_twice(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix, U: tp.Matrix, Z: tp.Matrix):
    y = x + attention(x, Q, K, W)
    y = y + perceptron(y, U, Z)
    y = y + attention(y, Q, K, W)
    return y + perceptron(y, U, Z)


def attended(Q, K, W):
    def branch(y):
        S = np.exp((Q @ y).T @ (K @ y) / np.sqrt(len(y)))
        return (W @ y) @ (S / S.sum(axis=1, keepdims=True)).T / np.sqrt(len(y))

    return branch


def transformed(W, U, f=lambda h: np.maximum(h, 0)):
    return lambda y: U @ f(W @ y) / np.sqrt(len(y))


def image(W):
    return lambda y: W @ y / np.sqrt(len(y))


#: a block, how many matrices it has, and its branches by hand
CASES = {
    "perceptron twice": (perceptron_twice, 2, lambda W, U: [transformed(W, U)] * 2),
    "one way up": (one_up, 3, lambda W, U, Z: [transformed(W, U), transformed(W, Z, np.tanh)]),
    "one way down": (one_down, 3, lambda W, U, Z: [transformed(W, U), transformed(Z, U)]),
    "attention twice": (attention_twice, 3, lambda Q, K, W: [attended(Q, K, W)] * 2),
    "values and image": (values_and_image, 3, lambda Q, K, W: [attended(Q, K, W), image(W)]),
    "layer twice": (layer_twice, 5, lambda Q, K, W, U, Z: [attended(Q, K, W), transformed(U, Z)] * 2),
}


def networks(branches, count, n, draws):
    """n (V′ − V) of layers at states with covariance V, and its standard error.

    Less x·ΣB(x) and its mirror image, which change their sign with the outer matrices.
    """
    rng, found = np.random.default_rng(n), []
    x = np.linalg.qr(rng.standard_normal((n, 2)))[0] * np.sqrt(n) @ L.T
    for _ in range(draws):
        own = branches(*(rng.standard_normal((count, n, n)) / np.sqrt(n)))
        y = x
        for branch in own:
            y = y + branch(y)
        cross = x.T @ sum(branch(x) for branch in own)
        found.append(y.T @ y - n * V - cross - cross.T)
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(draws)


def extrapolated(branches, count, widths=(32, 64, 128), draws=(4000, 2000, 1000)):
    """L of L + b/√n by least squares, and its standard error."""
    found = [networks(branches, count, n, d) for n, d in zip(widths, draws, strict=True)]
    weights = [1 / error for _, error in found]
    limit, spread = np.empty((2, 2)), np.empty((2, 2))
    for at in np.ndindex(2, 2):
        own = np.array([w[at] for w in weights])
        design = np.column_stack([own, [w / np.sqrt(n) for w, n in zip(own, widths, strict=True)]])
        limit[at] = np.linalg.lstsq(design, own * [m[at] for m, _ in found])[0][0]
        spread[at] = np.sqrt(np.linalg.inv(design.T @ design)[0, 0])
    return limit, spread


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_networks_have_this_drift(name):
    """Family-wise 1e-3 over 18 entries: 4.1 standard errors."""
    block, count, branches = CASES[name]
    value = tp.derive(block, tp.Proportional()).drift_at(V)
    limit, error = extrapolated(branches, count)
    assert (np.abs(limit - value) < 4.1 * error + 2e-3 * np.abs(value)).all()
    assert error.max() < 0.06 * value.max()


def drift(block):
    return tp.derive(block, tp.Proportional()).drift_at(V)


def of_pairs(f, g):
    """E f(u_α) g(u_β), u ~ N(0, V), by Gauss and Hermite beside the bends."""
    z, w = np.polynomial.hermite_e.hermegauss(300)
    w = w / w.sum()
    found = np.empty((2, 2))
    for α, β in np.ndindex(2, 2):
        ρ, σ = V[α, β] / V[α, α], np.sqrt(V[α, α])
        rest = np.sqrt(max(V[β, β] - ρ * V[α, β], 0))
        found[α, β] = w @ (f(σ * z)[:, None] * g(ρ * σ * z[:, None] + rest * z)) @ w
    return found


def test_what_is_shared_is_in_the_covariance_alone():
    """2 U r has four times the covariance of U r; with another U or W half of that is left."""

    @tp.block
    def once(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + perceptron(x, W, U)

    @tp.block
    def apart(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, A: tp.Matrix, B: tp.Matrix):
        y = x + perceptron(x, W, U)
        return y + perceptron(y, A, B)

    def rectified(h):
        return np.maximum(h, 0)

    one, means = drift(once), np.sqrt(np.outer(np.diag(V), np.diag(V))) / (2 * np.pi)
    np.testing.assert_allclose(one, of_pairs(rectified, rectified), atol=5e-3)
    np.testing.assert_allclose(drift(perceptron_twice), 4 * one, rtol=1e-6)
    np.testing.assert_allclose(drift(apart), 2 * one, rtol=1e-6)
    np.testing.assert_allclose(drift(one_up), one + of_pairs(np.tanh, np.tanh), rtol=1e-3)
    # E relu(u) E relu(u′) of two layers that one matrix multiplies
    np.testing.assert_allclose(drift(one_down), 2 * one + 2 * means, rtol=1e-6)


@tp.block
def transposed(x: tp.State["token"], W: tp.Matrix):
    y = x + W @ x / tp.sqrt(tp.n)
    return y + W.T @ y / tp.sqrt(tp.n)


def test_the_transpose_of_a_matrix_is_another_case():
    """avg(x Wᵀ W x) is V, twice, beside avg(W x W x) + avg(Wᵀ x Wᵀ x)."""
    np.testing.assert_allclose(drift(transposed), 4 * V, rtol=1e-6)

    def branches(W):
        return [image(W), image(W.T)]

    limit, error = extrapolated(branches, 1, (32, 128), (1000, 400))
    assert (np.abs(limit - 4 * V) < 4.5 * error).all() and (np.abs(limit - 2 * V) > 10 * error).any()


@tp.block
def with_a_jump(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    y = x + perceptron(x, W, U)
    return y + perceptron(y, W, U, tp.step)


@tp.block
def of_what_was_added(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    y = x + perceptron(x, W, U)
    return y + U @ tp.tanh(tp.sqrt(tp.n) * (W @ y - W @ x)) / tp.sqrt(tp.n)


@tp.block
def of_its_direction(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    y = x + perceptron(x, W, U)
    h = W @ y - W @ x
    return y + U @ (h / tp.sqrt(h * h + 1 / tp.n)) / tp.sqrt(tp.n)


@tp.block
def added_at_order_one(x: tp.State["token"], W: tp.Matrix):
    y = tp.sqrt(0.5) * x + tp.sqrt(0.5) * (W @ x)
    return y + W @ y / tp.sqrt(tp.n)


@tp.block
def of_the_sum(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    y = x + perceptron(x, W, U)
    return y + tp.n * (tp.avg(y * y) - tp.avg(x * x)) * (W @ y) / tp.sqrt(tp.n)


@tp.block
def of_one_matrix(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    y = x + perceptron(x, W, U)
    Y = tp.sqrt(tp.n) * tp.avg((W @ y) * (W @ x).rename(token="key"))
    return y + tp.sum(tp.tanh(Y) * (U @ y).rename(token="key"), over="key") / tp.sqrt(tp.n)


@tp.block
def beside_the_state(x: tp.State["token"], W: tp.Matrix):
    y = x + W @ x / 2
    return y + W @ y / tp.sqrt(tp.n)


@tp.block
def beside_a_function_of_it(x: tp.State["token"], W: tp.Matrix):
    y = x + x * tp.avg(x * x) + W @ x / tp.sqrt(tp.n)
    return y + W @ y / tp.sqrt(tp.n)


@tp.block
def of_logits_that_grow(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, U: tp.Matrix):
    y = x + U @ tp.tanh(Q @ x) / tp.sqrt(tp.n)
    Y = tp.n * tp.avg((Q @ y) * (K @ y).rename(token="key"))
    return y + tp.sum(tp.tanh(Y) * (U @ y).rename(token="key"), over="key") / tp.sqrt(tp.n)


@tp.block
def inside_itself(x: tp.State["token"], W: tp.Matrix):
    return x + W @ tp.tanh(W @ x) / tp.sqrt(tp.n)


@pytest.mark.parametrize(
    "block",
    [
        *(with_a_jump, of_what_was_added, of_its_direction, added_at_order_one),
        *(beside_the_state, beside_a_function_of_it, of_the_sum, of_one_matrix, of_logits_that_grow, inside_itself),
    ],
    ids=lambda b: b.name,
)
def test_what_sees_a_change_of_the_root_of_n_is_refused(block):
    with pytest.raises(tp.NoLimitError, match="is used twice in a row"):
        drift(block)
