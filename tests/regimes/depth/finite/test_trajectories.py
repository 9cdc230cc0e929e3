"""Chains of layers: against a chain of another make with the same law, and against Euler steps of the SDE."""

from __future__ import annotations

import numpy as np
import pytest
import shaped
from scipy.stats import norm

import tplimits as tp
from tplimits.regimes.depth.finite.expected import Expectation
from tplimits.regimes.depth.finite.layer import Layer
from tplimits.regimes.depth.finite.request import bound_block
from tplimits.regimes.depth.finite.states import covariance
from tplimits.regimes.depth.finite.trajectories import covariances_of_networks

V0 = np.array([[1.0, 0.2], [0.2, 1.0]])
PAIRS = np.triu_indices(2)
RESNET = {"γ": 0.7, "c_plus": 0.0, "c_minus": -1.0}
ATTENTION = {"γ": 0.7, "τ0": 0.8}


def wishart(rng, draws, m, dof):
    """G Gᵀ for G with `dof` columns of iid N(0, 1) entries, without the columns."""
    T = np.tril(rng.standard_normal((draws, m, m)), -1)
    for i in range(m):
        T[:, i, i] = np.sqrt(rng.chisquare(dof - i, draws))
    return T @ T.transpose(0, 2, 1)


def attention_chain(n, n_k, layers, draws, rng, γ, τ0):
    """V along attention from m × m random matrices alone: the law of n × n weights, written by hand."""
    V, m = np.repeat(V0[None], draws, axis=0), 2
    for _ in range(layers):
        L = np.linalg.cholesky(V)
        T = np.linalg.cholesky(wishart(rng, draws, m, n_k))  # X W_K has the law of L T up to a rotation of its columns
        Y = L @ rng.standard_normal((draws, m, m)) @ T.transpose(0, 2, 1) @ L.transpose(0, 2, 1)
        weights = np.exp(Y / (τ0 * np.sqrt(n * n_k)))
        A = np.eye(m) + weights / weights.sum(axis=2, keepdims=True) - 1 / m
        F = A @ L
        B = np.sqrt(1 - γ**2) * L + γ / np.sqrt(n) * F @ rng.standard_normal((draws, m, m))
        V = B @ B.transpose(0, 2, 1) + γ**2 / n * F @ wishart(rng, draws, m, n - m) @ F.transpose(0, 2, 1)
    return V


def resnet_chain(n, layers, draws, rng, γ, c_plus, c_minus):
    """V along the shaped ReLU ResNet: n columns of the first layer, an m × m root of the second."""
    V, s = np.repeat(V0[None], draws, axis=0), np.array([1 + c_plus / np.sqrt(n), 1 + c_minus / np.sqrt(n)])
    for _ in range(layers):
        L = np.linalg.cholesky(V)
        h = L @ rng.standard_normal((draws, 2, n))
        φ = s[0] * np.maximum(h, 0) - s[1] * np.maximum(-h, 0)
        F = np.linalg.cholesky(φ @ φ.transpose(0, 2, 1) / n * 2 / (s**2).sum())
        B = np.sqrt(1 - γ**2) * L + γ / np.sqrt(n) * F @ rng.standard_normal((draws, 2, 2))
        V = B @ B.transpose(0, 2, 1) + γ**2 / n * F @ wishart(rng, draws, 2, n - 2) @ F.transpose(0, 2, 1)
    return V


def statistics(V):
    ρ = V[:, 0, 1] / np.sqrt(V[:, 0, 0] * V[:, 1, 1])
    values = np.stack(
        [V[:, 0, 0], V[:, 0, 1], V[:, 1, 1], V[:, 0, 0] ** 2, V[:, 0, 1] ** 2, ρ, ρ**2, np.abs(ρ)], axis=1
    )
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))


def apart(one, other):
    """The largest |z| between the means of two samples."""
    (a, s), (b, t) = statistics(one), statistics(other)
    return (np.abs(a - b) / np.hypot(s, t)).max()


LIMIT = norm.isf(1e-3 / 16)


@pytest.mark.sampling
@pytest.mark.parametrize("weights", ["law", pytest.param("real", marks=pytest.mark.long)])
def test_attention_has_the_law_of_its_small_chain(weights, seed):
    networks = covariances_of_networks(shaped.shaped_attention, V0, 32, 16, 3000, seed, weights=weights, **ATTENTION)
    exact = attention_chain(32, 32, 16, 8000, np.random.default_rng(seed), **ATTENTION)
    wrong = attention_chain(32, 32, 16, 8000, np.random.default_rng(seed), γ=0.3, τ0=0.8)
    assert apart(networks, exact) < LIMIT < apart(networks, wrong)


@pytest.mark.sampling
@pytest.mark.parametrize("weights", ["law", pytest.param("real", marks=pytest.mark.long)])
def test_resnet_has_the_law_of_its_small_chain(weights, seed):
    networks = covariances_of_networks(shaped.relu_resnet, V0, 32, 16, 3000, seed, weights=weights, **RESNET)
    exact = resnet_chain(32, 16, 8000, np.random.default_rng(seed), **RESNET)
    wrong = resnet_chain(32, 16, 8000, np.random.default_rng(seed), γ=0.7, c_plus=0.0, c_minus=-4.0)
    assert apart(networks, exact) < LIMIT < apart(networks, wrong)


def euler(sde, T, steps, paths, rng, **constants):
    """Plain steps with a root of Σ; stays a covariance at these settings."""
    V = np.repeat(V0[None], paths, axis=0)
    for _ in range(steps):
        values, vectors = np.linalg.eigh(sde.diffusion_at(V, **constants))
        noise = rng.standard_normal((paths, 3)) * np.sqrt(np.maximum(values, 0) * T / steps)
        change = (vectors @ noise[:, :, None])[:, :, 0]
        new = V + sde.drift_at(V, **constants) * T / steps
        new[:, PAIRS[0], PAIRS[1]] += change
        new[:, 1, 0] = new[:, 0, 1]
        V = new
    return V


@pytest.mark.long
@pytest.mark.sampling
def test_depth_in_proportion_to_width(seed):
    sde, constants = tp.derive(shaped.relu_resnet, tp.Proportional()), {**RESNET, "γ": 0.5}
    V = euler(sde, 0.25, 60, 4000, np.random.default_rng(seed), **constants)
    ρ = V[:, 0, 1] / np.sqrt(V[:, 0, 0] * V[:, 1, 1])
    settings = {"widths": (24, 48, 96, 192), "draws": 3000, "layers": 48, "V0": V0, "seed": seed, "level": 1e-3}
    claims = {"V[0,0]": 1.0, "V[0,1]": V[:, 0, 1].mean(), "ρ[0,1]": ρ.mean(), "ρ²[0,1]": (ρ**2).mean()}
    assert tp.check(sde, claims=claims, progress=False, **settings, **constants).accepted
    without_noise = {**claims, "ρ²[0,1]": ρ.mean() ** 2}
    assert not tp.check(sde, claims=without_noise, progress=False, **settings, **constants).accepted


def test_recorded_layers_end_where_the_chain_ends():
    along = covariances_of_networks(shaped.relu_resnet, V0, 20, 5, 7, record=True, **RESNET)
    end = covariances_of_networks(shaped.relu_resnet, V0, 20, 5, 7, **RESNET)
    assert along.shape == (6, 7, 2, 2)
    assert np.abs(along[0] - V0).max() < 1e-12
    assert np.array_equal(along[-1], end)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n": 1}, "the width is"), ({"draws": 0}, "networks, 1 or more"), ({"layers": 0}, "layers")],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(tp.CheckError, match=message):
        covariances_of_networks(shaped.relu_resnet, V0, **{"n": 20, "layers": 2, "draws": 2, **options}, **RESNET)


@pytest.mark.parametrize(
    ("block", "numbers"),
    [(shaped.relu_resnet, RESNET), (shaped.shaped_attention, ATTENTION)],
    ids=["resnet", "attention"],
)
def test_the_mean_over_the_last_matrices_is_that_of_many_layers(block, numbers):
    """E[V′ | all but the last matrix], of which second moments matter alone, and the mean: the skip stays."""
    n, rng = 6, np.random.default_rng(3)
    layer = Layer(block, n, 2, 1, rng, "law", given=numbers)
    x = np.random.default_rng(4).standard_normal((1, 2, n))
    layer.advance(x)
    expectation = Expectation(layer)
    (last,) = expectation.products
    found, product, root = expectation.covariance(), layer.arrays[last], layer.met[block[last].matrix, ()].root
    assert root.shape == (1, 1, 2, 2)
    whites = np.sqrt(2 * n) * np.concatenate([np.eye(2 * n), -np.eye(2 * n)]).reshape(-1, 1, 2, n)
    V = np.mean([covariance(expectation._state({last: root[0] @ z})) for z in whites], axis=0)
    np.testing.assert_allclose(found, V, rtol=1e-12)
    assert np.abs(found - covariance(expectation._state({last: 0 * product}))).max() > 1e-3
    assert (layer.arrays[last] == product).all()


def test_a_last_matrix_that_enters_twice_has_no_such_mean():
    """The square of a product is no linear function of it."""

    @tp.block
    def squared(x: tp.State["token"], W: tp.Matrix):
        h = W @ x
        return x + (h * h - 1) / tp.sqrt(tp.n)

    layer = Layer(squared, 6, 2, 3, np.random.default_rng(0))
    V = covariance(layer.advance(np.random.default_rng(1).standard_normal((3, 2, 6))))
    assert Expectation(layer).products == ()
    np.testing.assert_array_equal(Expectation(layer).covariance(), V)


def test_sizes_are_bound_and_constants_are_left():
    given = {"head": 3, "γ": 0.5, "τ0": 2.0}
    block, rest = bound_block(shaped.heads_attention, 2, given)
    assert (block.size("head"), block.size("token"), rest) == (3, 2, {"γ": 0.5, "τ0": 2.0})
    assert given["head"] == 3
