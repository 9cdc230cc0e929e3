"""Functions of logits of order 1 beside values that share a matrix with the logits: E[A K Aᵀ], where a sign tells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import roots_hermitenorm

import tplimits as tp

V = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])
L = np.linalg.cholesky(V)


def softmax(S):
    A = np.exp(S - S.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)


def block(values, weights=lambda Y: tp.softmax(Y, over="key"), keys=None):
    """x + n^(−1/2) Σ A v, A of the logits q·k/√n; `values` are made of q, k and a further matrix."""

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WO: tp.Matrix):
        q, k = WQ @ x, (WK @ x if keys is None else keys(x))
        A = weights(tp.sqrt(tp.n) * tp.avg(q * k.rename(token="key")))
        return x + tp.sum(A * values(q, k, WO).rename(token="key"), over="key") / tp.sqrt(tp.n)

    return attention


def networks(values, weights, n=128, draws=1500, keys=None):
    """n (V′ − V) of networks of one layer at states with covariance V, and its standard error."""
    rng = np.random.default_rng(11)
    x = np.linalg.qr(rng.standard_normal((n, 3)))[0] * np.sqrt(n) @ L.T
    found = []
    for _ in range(draws):
        WQ, WK, WO = (rng.standard_normal((n, n)) / np.sqrt(n) for _ in range(3))
        q, k = WQ @ x, (WK @ x if keys is None else keys(x))
        y = x + values(q, k, WO) @ weights(q.T @ k / np.sqrt(n)).T / np.sqrt(n)
        found.append(y.T @ y - n * V)
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(draws)


def sampled(weights, kernel, draws=200_000):
    """E[A K Aᵀ] over logits of covariance V ⊗ V, and its standard error."""
    values = weights(L @ np.random.default_rng(5).standard_normal((draws, 3, 3)) @ L.T)
    values = values @ kernel @ np.swapaxes(values, 1, 2)
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(draws)


def of_pairs(f):
    """E f(u_α) f(u_β) for u ~ N(0, V)."""
    z, w = roots_hermitenorm(60)
    w = w / w.sum()
    found = np.empty((3, 3))
    for α, β in np.ndindex(3, 3):
        ρ = V[α, β] / V[α, α]
        rest = np.sqrt(max(V[β, β] - ρ * V[α, β], 0))
        u = np.sqrt(V[α, α]) * z[:, None]
        found[α, β] = w @ (f(u) * f(ρ * u + rest * z)) @ w
    return found


CASES = {
    "keys": (lambda q, k, W: k, lambda q, k, W: k, V),
    "queries": (lambda q, k, W: q, lambda q, k, W: q, V),
    "tanh of keys": (lambda q, k, W: tp.tanh(k), lambda q, k, W: np.tanh(k), of_pairs(np.tanh)),
    "a layer behind": (
        lambda q, k, W: W @ tp.tanh(k) + k,
        lambda q, k, W: W @ np.tanh(k) + k,
        V + of_pairs(np.tanh),
    ),
}
WEIGHTS = {
    "softmax": (lambda Y: tp.softmax(Y, over="key"), softmax),
    "tanh": (tp.tanh, np.tanh),
    "cos": (tp.cos, np.cos),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", CASES)
def test_values_may_share_one_matrix_with_the_logits(name, weights):
    values, _, kernel = CASES[name]
    sde = tp.derive(block(values, WEIGHTS[weights][0]), tp.Proportional())
    assert sde.verdict.kind == "ODE"
    value, error = sde.drift_estimate_at(V)
    wanted, spread = sampled(WEIGHTS[weights][1], kernel)
    assert (np.abs(value - wanted) < 4.5 * np.hypot(error, spread) + 2e-3 * np.abs(wanted).max()).all()
    assert (error < 2e-2 * np.abs(value).max()).all()


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_networks_have_this_drift(name):
    """Family-wise 1e-4 over 9 entries of 4 cases: 4.7 standard errors; corrections are of order 1/n."""
    _, of_arrays, kernel = CASES[name]
    found, error = networks(of_arrays, softmax)
    wanted, spread = sampled(softmax, kernel)
    assert (np.abs(found - wanted) < 4.7 * np.hypot(error, spread) + 3 * np.abs(wanted).max() / 128).all()
    assert error.max() < 0.1


def test_values_that_fluctuate_together_with_the_logits_are_refused():
    """Keys that are the state: E[x·v A] is of order 1/n too, of which E[A V Aᵀ] knows nothing."""
    with pytest.raises(tp.NoLimitError, match="if `WQ` stood inside these scalars alone"):
        tp.derive(block(lambda q, k, W: q, tp.tanh, keys=lambda x: x), tp.Proportional())
    found, error = networks(lambda q, k, W: q, np.tanh, draws=400, keys=lambda x: x)
    assert np.abs(found - sampled(np.tanh, V)[0]).max() > 5 * error.max()


@tp.block
def of_both(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WO: tp.Matrix):
    """x + n^(−1/2) Σ_κ A_ακ (v_κ + q_α + k_κ): avg(q k) is the logit itself, and smaller than avg(q q) by n^(−1/2)."""
    q, k, v = WQ @ x, (WK @ x).rename(token="key"), (WO @ x).rename(token="key")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg(q * k), over="key") + tp.tanh(tp.sqrt(tp.n) * tp.avg(q * k))
    return x + tp.sum(A * (v + q + k), over="key") / tp.sqrt(tp.n)


def both(S):
    return softmax(S) + np.tanh(S)


def of_layers(n, draws, size=0.0):
    """n (V′ − V) of networks of one layer with `size` q beside, and its error; q, k, v → −q, −k, −v leaves A."""
    rng, found = np.random.default_rng(17), []
    for _ in range(draws):
        q, k, v = (rng.standard_normal((n, 3)) @ L.T for _ in range(3))
        A = both(q.T @ k / np.sqrt(n))
        branch = (v + k) @ A.T + q * A.sum(axis=1)
        cross = size * q.T @ branch / np.sqrt(n)
        found.append(branch.T @ branch / n + cross + cross.T)
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(draws)


def test_queries_and_keys_may_be_added_to_the_branch_of_their_logits():
    """E[A (V + V) Aᵀ] + E[(A 1)(A 1)ᵀ] V; networks are off it by n^(−1/2), and are extrapolated from two widths."""
    sde = tp.derive(of_both, tp.Proportional())
    value, error = sde.drift_estimate_at(V)
    A = both(L @ np.random.default_rng(5).standard_normal((200_000, 3, 3)) @ L.T)
    rows = A.sum(axis=2)
    of_queries = rows[:, :, None] * rows[:, None] * V
    values = 2 * A @ V @ np.swapaxes(A, 1, 2) + of_queries
    wanted, spread = values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))
    assert sde.verdict.kind == "ODE" and (np.abs(value - wanted) < 4.5 * np.hypot(error, spread)).all()
    (few, e), (many, E) = of_layers(40, 6000), of_layers(640, 6000)
    networks, spread = (4 * many - few) / 3, np.hypot(4 * E, e) / 3
    assert (np.abs(networks - value) < 4.5 * spread).all()
    assert np.abs(networks - value + of_queries.mean(axis=0)).max() > 10 * spread.max()  # without the queries


def test_queries_of_order_one_beside_a_branch_of_their_logits_are_refused():
    """0.6 q beside Σ A k/√n: E[S A] is of order 1/n there, of which E[A V Aᵀ] knows nothing."""

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WO: tp.Matrix):
        q, k, v = WQ @ x, (WK @ x).rename(token="key"), (WO @ x).rename(token="key")
        A = tp.softmax(tp.sqrt(tp.n) * tp.avg(q * k), over="key") + tp.tanh(tp.sqrt(tp.n) * tp.avg(q * k))
        return 0.8 * x + 0.6 * q + tp.sum(A * (v + k), over="key") / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="stood inside these scalars alone"):
        tp.derive(block, tp.Proportional())
    (without, _), (beside, error) = of_layers(640, 500), of_layers(640, 500, size=0.6)
    assert np.abs(beside - without).max() > 10 * error.max()


def test_a_logit_of_order_one_beside_functions_of_it_is_no_small_part():
    """S = √n avg(q k) is of order 1, although avg(q k) is not: E[S² tanh² S] V, one mean."""

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WO: tp.Matrix):
        S = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x))
        return x + S * tp.tanh(S) * (WO @ x) / tp.sqrt(tp.n)

    one = np.array([[1.3]])
    found = tp.derive(block, tp.Proportional()).drift_at(one)
    z, w = roots_hermitenorm(200)
    np.testing.assert_allclose(found, 1.3 * (w @ (1.3 * z * np.tanh(1.3 * z)) ** 2) / w.sum(), rtol=1e-3)


def test_scalars_that_a_matrix_turns_an_even_number_of_times_are_no_others():
    """avg(a a b) changes its sign with B, which the values hold, and not with A."""

    @tp.block
    def block(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix):
        a, b = A @ x, B @ x
        return x + tp.tanh(tp.sqrt(tp.n) * tp.avg(a * a * b)) * b / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="stood inside these scalars alone"):
        tp.derive(block, tp.Proportional())


def test_a_branch_of_order_one_has_no_limit_by_that():
    @tp.block
    def block(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix):
        k = (K @ x).rename(token="key")
        return x + tp.sum(tp.tanh(tp.sqrt(tp.n) * tp.avg((Q @ x) * k)) * k, over="key")

    with pytest.raises(tp.NoLimitError, match="not perturbative"):
        tp.derive(block, tp.Proportional())


def test_scalars_of_which_a_matrix_turns_a_part_are_no_others():
    """avg((A x + C x) x′) keeps the part with C, which the values hold, where A changes its sign."""

    @tp.block
    def block(x: tp.State["token"], A: tp.Matrix, C: tp.Matrix):
        c = C @ x
        Y = tp.sqrt(tp.n) * tp.avg((A @ x + c) * x.rename(token="key"))
        return x + tp.sum(tp.tanh(Y) * c.rename(token="key"), over="key") / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="stood inside these scalars alone"):
        tp.derive(block, tp.Proportional())
