"""Several branches of size 1/√n, each reading what those before have added to the state: each sees the state."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 0.7]])


def attention(y, Q, K, W):
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ y) * (K @ y).rename(token="key")), over="key")
    return tp.sum(A * (W @ y).rename(token="key"), over="key") / tp.sqrt(tp.n)


def perceptron(y, W, U):
    return U @ tp.tanh(W @ y) / tp.sqrt(tp.n)


@tp.block
def attends(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix):
    return x + attention(x, Q, K, W)


@tp.block
def transforms(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    return x + perceptron(x, W, U)


@tp.block
def attends_then_transforms(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix, A: tp.Matrix, B: tp.Matrix):
    y = x + attention(x, Q, K, W)
    return y + perceptron(y, A, B)


@tp.block
def transforms_then_attends(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix, A: tp.Matrix, B: tp.Matrix):
    y = x + perceptron(x, A, B)
    return y + attention(y, Q, K, W)


@tp.block
def attends_twice(
    x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix, Q2: tp.Matrix, K2: tp.Matrix, W2: tp.Matrix
):
    y = x + attention(x, Q, K, W)
    return y + attention(y, Q2, K2, W2)


@tp.block
def transforms_twice(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, A: tp.Matrix, B: tp.Matrix):
    y = x + perceptron(x, W, U)
    return y + perceptron(y, A, B)


def drift(block):
    return tp.derive(block, tp.Proportional()).drift_at(V)


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (attends_then_transforms, (attends, transforms)),
        (transforms_then_attends, (attends, transforms)),
        (attends_twice, (attends, attends)),
        (transforms_twice, (transforms, transforms)),
    ],
    ids=["attention first", "perceptron first", "two attentions", "two perceptrons"],
)
def test_drifts_add_up(block, parts):
    np.testing.assert_allclose(drift(block), sum(map(drift, parts)), rtol=2e-4)


def test_what_is_added_at_order_one_is_no_small_part():
    """Logits of √½ x + √½ U x are other logits: no branch of size 1/√n made them."""

    @tp.block
    def mixed(x: tp.State["token"], U: tp.Matrix, Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix):
        y = tp.sqrt(0.5) * x + tp.sqrt(0.5) * (U @ tp.tanh(x))
        return x + attention(y, Q, K, W)

    with pytest.raises(tp.NoLimitError):
        tp.derive(mixed, tp.Proportional())


def test_a_state_that_is_added_to_at_order_one_is_another_state():
    """Q (x + U x) has the covariance 2V: no branch of size 1/√n made it."""

    @tp.block
    def added(x: tp.State["token"], U: tp.Matrix, Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix):
        return x + attention(x + U @ x, Q, K, W)

    with pytest.raises(tp.NoLimitError):
        tp.derive(added, tp.Proportional())


def test_logits_over_another_width():
    @tp.block
    def first(x: tp.State["token"], Q: tp.Matrix["k", "n"], K: tp.Matrix["k", "n"], W: tp.Matrix):
        A = tp.softmax(tp.sqrt(tp.width("k")) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
        return x + tp.sum(A * (W @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    @tp.block
    def second(x: tp.State["token"], Q: tp.Matrix["k", "n"], K: tp.Matrix["k", "n"], W: tp.Matrix, Z: tp.Matrix):
        y = x + Z @ x / tp.sqrt(tp.n)
        A = tp.softmax(tp.sqrt(tp.width("k")) * tp.avg((Q @ y) * (K @ y).rename(token="key")), over="key")
        return y + tp.sum(A * (W @ y).rename(token="key"), over="key") / tp.sqrt(tp.n)

    one, other = (tp.derive(b, tp.Proportional()).drift_at(V, ratios={"k": 0.25}) for b in (first, second))
    np.testing.assert_allclose(other, one + V, rtol=1e-3)


def test_squares_of_what_was_added_to_keep_their_formula():
    """V_αα V_ββ + 2 V_αβ², and V_αβ of the branch before."""

    @tp.block
    def block(x: tp.State["token"], Z: tp.Matrix, W: tp.Matrix, U: tp.Matrix):
        y = x + Z @ x / tp.sqrt(tp.n)
        return y + U @ ((W @ y) ** 2) / tp.sqrt(tp.n)

    sde = tp.derive(block, tp.Proportional())
    assert str(sde.drift) == "V[α, α]*V[β, β] + 2*V[α, β]**2 + V[α, β]"


@pytest.mark.long
def test_networks_have_this_drift():
    """Family-wise 1e-3 over three entries: 3.6 standard errors, and 3/n of the whole."""
    n, draws, rng = 128, 800, np.random.default_rng(4)
    x = np.linalg.qr(rng.standard_normal((n, 2)))[0] * np.sqrt(n) @ np.linalg.cholesky(V).T
    moved = []
    for _ in range(draws):
        Q, K, W, A, B = (rng.standard_normal((n, n)) / np.sqrt(n) for _ in range(5))
        y = x + B @ np.tanh(A @ x) / np.sqrt(n)
        S = np.exp((Q @ y).T @ (K @ y) / np.sqrt(n))
        y = y + (W @ y) @ (S / S.sum(axis=1, keepdims=True)).T / np.sqrt(n)
        moved.append(y.T @ y - n * V)
    mean, error = np.mean(moved, axis=0), np.std(moved, axis=0) / np.sqrt(draws)
    wanted = drift(transforms_then_attends)
    assert (abs(mean - wanted) < 3.6 * error + 3 / n * abs(wanted)).all() and error.max() < 0.12
