"""Averages with a limit inside of weights on branches of size 1/√n: norms of queries, keys and the state, gates.

Each drift beside the mean over its exact limiting law, drawn here, and beside networks of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.4, 0.1], [0.4, 0.7, -0.2], [0.1, -0.2, 0.9]])
L = np.linalg.cholesky(V)
PROPORTIONAL = tp.Proportional()
ROOT = np.sqrt(np.diag(V))
G = np.random.default_rng(3).standard_normal((60_000, 3, 3))
#: q·k/√n of independent W_Q and W_K, and √n (q·q/n − x·x/n)
LOGITS, SQUARES = L @ G @ L.T, L @ (G + np.swapaxes(G, 1, 2)) @ L.T / np.sqrt(2)


def attended(A, values):
    """E[A W Aᵀ] and its standard error."""
    found = A @ values @ np.swapaxes(A, 1, 2)
    return found.mean(0), found.std(0) / np.sqrt(len(found))


def rows(S):
    weights = np.exp(S - S.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def judged(sde, wanted, sampling=0.0, **given):
    value, error = sde.drift_estimate_at(V, **given)
    assert sde.verdict.kind == "ODE" and not sde.diffusion_form
    assert (np.abs(value - wanted) < 5 * (error + sampling) + 1e-9).all()


def normed(vector):
    return vector / tp.sqrt(tp.avg(vector * vector))


def softmax(q, k):
    return tp.softmax(tp.sqrt(tp.n) * tp.avg(q * k.rename(token="key")), over="key")


def values(A, v):
    return tp.sum(A * v.rename(token="key"), over="key") / tp.sqrt(tp.n)


@tp.block
def vectors_normed(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
    return x + values(softmax(normed(WQ @ x), normed(WK @ x)), WV @ x)


@tp.block
def logits_normed(WV: tp.Matrix, WK: tp.Matrix, x: tp.State["token"], WQ: tp.Matrix):
    q, k = WQ @ x, (WK @ x).rename(token="key")
    S = tp.sqrt(tp.n) * tp.avg(k * q) / tp.sqrt(tp.avg(k * k)) / tp.sqrt(tp.avg(q * q))
    return x + tp.sum(tp.softmax(S, over="key") * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)


@tp.block
def state_normed(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix):
    q, k = (W @ normed(x) for W in (WQ, WK))
    A = tp.softmax(tp.sqrt(tp.width("k")) * tp.avg(q * k.rename(token="key")), over="key")
    return x + WV @ values(A, x)


@pytest.mark.parametrize("block", [vectors_normed, logits_normed, state_normed], ids=lambda block: block.name)
def test_logits_of_normed_queries_and_keys(block):
    sde = tp.derive(block, PROPORTIONAL)
    judged(sde, *attended(rows(LOGITS / np.outer(ROOT, ROOT)), V))
    plain, _ = attended(rows(LOGITS), V)
    assert np.abs(plain - sde.drift_estimate_at(V)[0]).max() > 0.005  # norms matter


@pytest.mark.parametrize(("function", "numbers"), [(tp.tanh, np.tanh), (lambda S: tp.softmax(S, over="key"), rows)])
def test_averages_of_squares_less_their_limit(function, numbers):
    """√n (avg(q q′) − avg(x x′)) has the covariance V V + V V, not that of independent queries and keys."""

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WV: tp.Matrix):
        q, x_, k = WQ @ x, x.rename(token="key"), (WQ @ x).rename(token="key")
        return x + values(function(tp.sqrt(tp.n) * (tp.avg(q * k) - tp.avg(x * x_))), WV @ x)

    sde = tp.derive(block, PROPORTIONAL)
    judged(sde, *attended(numbers(SQUARES), V))
    assert np.abs(attended(numbers(LOGITS), V)[0] - sde.drift_estimate_at(V)[0]).max() > 0.005


def roots_of_squares(x, h):
    return tp.relu(tp.sqrt(tp.n) * (tp.sqrt(tp.avg(h * h)) - tp.sqrt(tp.avg(x * x))))


def a_limit_and_a_logit(x, h):
    return tp.tanh(tp.avg(h * h) + tp.sqrt(tp.n) * tp.avg(h))


def a_jump_smoothed(x, h):
    return tp.sign(tp.avg(h * h) - 1 + tp.sqrt(tp.n) * tp.avg(h))


NORMALS = np.random.default_rng(5).standard_normal((200_000, 3)) @ L.T
DIAGONALS = np.diagonal(SQUARES, axis1=1, axis2=2)
GATES = {
    "roots": (roots_of_squares, np.maximum(DIAGONALS / (2 * ROOT), 0)),
    "a limit and a logit": (a_limit_and_a_logit, np.tanh(np.diag(V) + NORMALS)),
    "a jump that a logit smooths": (a_jump_smoothed, np.sign(np.diag(V) - 1 + NORMALS)),
    "a limit alone": (lambda x, h: tp.tanh(tp.avg(h * h)), np.tanh(np.diag(V))[None]),
}


@pytest.mark.parametrize("name", GATES)
def test_gates(name):
    function, drawn = GATES[name]

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + function(x, W @ x) * (U @ x) / tp.sqrt(tp.n)

    products = drawn[:, :, None] * drawn[:, None] * V
    judged(tp.derive(block, PROPORTIONAL), products.mean(0), products.std(0) / np.sqrt(len(drawn)))

    # a block meets c² V behind one that multiplies the state by c, and its functions of V with it
    @tp.block
    def larger(x: tp.State["token"], W: tp.Matrix, *, c):
        return c * (W @ x)

    stack = tp.derive(tp.stack(larger.bind(c=2), block, larger.bind(c=0.5)), PROPORTIONAL)
    at_larger, _ = tp.derive(block, PROPORTIONAL).drift_estimate_at(4 * V)
    np.testing.assert_allclose(stack.drift_estimate_at(V)[0], at_larger / 4, rtol=1e-9, atol=1e-12)


@tp.block
def pre_norm(
    x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, W: tp.Matrix, U: tp.Matrix, b: tp.Matrix
):
    """Attention and feed-forward side by side behind one norm."""
    y = tp.layers.rms_norm(x)
    return x + values(softmax(WQ @ y, WK @ y), WV @ y) + (U @ tp.relu(W @ y + b @ y)) / tp.sqrt(tp.n)


@tp.block
def one_after_the_other(
    x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, W: tp.Matrix, U: tp.Matrix, b: tp.Matrix
):
    """The layer of a transformer: feed-forward behind a norm of what attention has added to."""
    y = normed(x)
    z = x + values(softmax(WQ @ y, WK @ y), WV @ y)
    return z + (U @ tp.relu((W @ normed(z)) + b @ normed(z))) / tp.sqrt(tp.n)


def network(rng, n, sequential):
    """n E[V′ − V] given queries, keys and W: outer matrices are averaged by hand."""
    x = L @ np.linalg.qr(rng.standard_normal((n, 3)))[0].T * np.sqrt(n)
    y = x / np.sqrt((x * x).mean(1, keepdims=True))
    q, k, v = (y @ rng.standard_normal((n, n)) / np.sqrt(n) for _ in range(3))
    A = rows(q @ k.T / np.sqrt(n))
    z = x + A @ v / np.sqrt(n) if sequential else x
    z /= np.sqrt((z * z).mean(1, keepdims=True))
    φ = np.maximum(z @ rng.standard_normal((n, n)) * np.sqrt(2 / n), 0)
    return A @ (y @ y.T / n) @ A.T + φ @ φ.T / n


@pytest.mark.long
@pytest.mark.parametrize("block", [pre_norm, one_after_the_other], ids=lambda block: block.name)
def test_branches_behind_norms_beside_networks(block):
    rng = np.random.default_rng(11)
    found = [network(rng, 150, block is one_after_the_other) for _ in range(400)]
    sde, mean, error = tp.derive(block, PROPORTIONAL), np.mean(found, 0), np.std(found, 0) / np.sqrt(len(found))
    judged(sde, mean, error)
    assert (np.abs(mean - 0.9 * sde.drift_estimate_at(V)[0]) > 5 * error).any()


def test_what_vanishes_behind_a_norm_has_to_vanish_fast_enough():
    """W (x + W₂ tanh(W₁ x)) is no W x: its law rests on what is added."""

    @tp.block
    def block(x: tp.State["token"], WV: tp.Matrix, W: tp.Matrix, U: tp.Matrix, WQ: tp.Matrix, WK: tp.Matrix):
        z = x + tp.sqrt(tp.n) * values(softmax(WQ @ x, WK @ x), WV @ tp.tanh(WV @ x))
        return x + (U @ tp.relu(W @ z)) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError):
        tp.derive(block, PROPORTIONAL)


def test_noise_beside_a_function_of_the_state():
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix):
        return (W @ x) * (1 + tp.relu(tp.avg(x * x) - 0.8) / tp.n)

    sde = tp.derive(block, PROPORTIONAL)
    gain = np.maximum(np.diag(V) - 0.8, 0)
    np.testing.assert_allclose(sde.drift_at(V), V * np.add.outer(gain, gain), atol=1e-12)
    assert sde.verdict.kind == "SDE"


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (lambda s: tp.sign(s - 1), r"V\[token, token\] - 1"),
        (lambda s: 1 / (s - 1), r"V\[token, token\] - 1"),
        (lambda s: tp.sqrt(s - 1), r"V\[token, token\] - 1"),
    ],
)
def test_what_V_alone_decides_is_continuous(function, place):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + function(tp.avg((W @ x) ** 2)) * (U @ x) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match=f"not continuous, or not finite, where V passes `{place}` = 0"):
        tp.derive(block, PROPORTIONAL)


def test_a_token_that_is_zero_has_no_norm():
    with pytest.raises(tp.EvaluationError, match="divide by a token that is zero"):
        tp.derive(vectors_normed, PROPORTIONAL).drift_at(np.diag([1.0, 0.0]))


def test_what_is_left_of_an_average_at_one_over_n_has_no_law():
    """n (avg(z z) − avg(x x)) is random for z = x + W x/√n, beyond V and beyond √n times an average."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        z = x + (W @ x) / tp.sqrt(tp.n)
        return x + tp.tanh(tp.n * (tp.avg(z * z) - tp.avg(x * x))) * (U @ x) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="fluctuations of order 1"):
        tp.derive(block, PROPORTIONAL)
