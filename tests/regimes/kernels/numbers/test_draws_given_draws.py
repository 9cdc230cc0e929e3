"""Random logits that are made of earlier ones: Gaussian given these, so that every draw has a covariance of its own."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

#: standard errors that a right mean may be away, and a wrong one must be
SIGMAS = 4.5
X = np.array([[0.1, 1.1], [-0.6, 1.1]])
TOKENS = np.array([[[1.2, 0.4], [-0.9, 1.3]], [[0.3, -1.5], [1.1, 1.0]]])


@tp.network
def chained(U: tp.Vector["d"], ξ: tp.Input["d"], a: tp.Vector, c: tp.Vector, v: tp.Vector):
    y = tp.tanh(tp.sum(U * ξ, over="d"))
    s = tp.sqrt(tp.n) * tp.avg(a * y)
    return v * y * tp.cos(tp.sqrt(tp.n) * tp.avg(c * (y * s)))


@tp.network
def layers(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    Q: tp.Matrix,
    K: tp.Matrix,
    V: tp.Matrix,
    P: tp.Matrix,
    L: tp.Matrix,
    v: tp.Vector,
):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    y = tp.sum(A * (V @ x).rename(token="key"), over="key")
    B = tp.softmax(tp.sqrt(tp.n) * tp.avg((P @ y) * (L @ y).rename(token="key")), over="key")
    return v * tp.mean(tp.sum(B * y.rename(token="key"), over="key"), over="token")


def bracket():
    """E tanh h tanh h′ of h = ⟨U|ξ⟩, U two standard normals, by Gauss's rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    U = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    y = np.tanh(U @ X.T)
    return (y.T * np.outer(weights, weights).ravel()) @ y / weights.sum() ** 2


def cosines(law):
    """E cos S cos S′ of S = s g, S′ = s′ g′, (s, s′) and (g, g′) of a law: E exp(−sᵀ M s/2) = det(1 + law M)^(−1/2)."""
    found = [np.linalg.det(np.eye(2) + law @ (law * [[1, k], [k, 1]])) ** -0.5 for k in (1, -1)]
    return sum(found) / 2


def away(sample, truth):
    """Standard errors between means over draws and what they should be."""
    return np.abs(sample.mean(axis=0) - truth) / (sample.std(axis=0) / len(sample) ** 0.5)


def test_covariances_are_those_of_each_draw():
    sample, law = tp.derive(chained, tp.Kernels(train=("v",))).sample(X, draws=4000, seed=1).nngp, bracket()
    assert away(sample[:, 0, 1], law[0, 1] * cosines(law)) < SIGMAS
    mean = law * law  # wrong: the mean of all covariances for each draw
    together = np.exp(-(mean[0, 0] + mean[1, 1]) / 2) * np.cosh(mean[0, 1])
    assert away(sample[:, 0, 1], law[0, 1] * together) > SIGMAS


def test_two_batches_share_the_draws():
    limit = tp.derive(chained, tp.Kernels(train=("v",)))
    whole = limit.sample(X, draws=4000, seed=1).nngp[:, 0, 1]
    apart = limit.sample(X[:1], X[1:], draws=4000, seed=2).nngp[:, 0, 0]
    assert abs(whole.mean() - apart.mean()) < SIGMAS * np.hypot(whole.std(), apart.std()) / 4000**0.5


def test_training_behind_the_first_logits_has_a_tangent_kernel():
    """Θ = κ cos S cos S′ + κ² s s′ E[J J′] sin S sin S′ of the fluctuation J of v y, whose variance is κ."""
    law, rng = bracket(), np.random.default_rng(3)
    s, g = (rng.standard_normal((10**6, 2)) @ np.linalg.cholesky(law).T for _ in range(2))
    S, κ = s * g, law[0, 1]
    fixed, moved = κ * np.prod(np.cos(S), axis=1), κ**2 * np.prod(np.sin(S) * s, axis=1)
    sample = tp.derive(chained, tp.Kernels(train=("v", "c"))).sample(X, draws=4000, seed=1).ntk[:, 0, 1]
    assert away(sample, (fixed + moved).mean()) < SIGMAS
    assert away(sample, fixed.mean()) > SIGMAS  # wrong: as if c did not move S


@pytest.mark.parametrize("network", [chained, layers.bind(token=2)], ids=["scalars", "attention"])
def test_what_earlier_logits_move_is_not_independent_of_the_later_ones(network):
    """√n⟨c|y⟩ δs beside the logit √n⟨c|y⟩ s: as if they were independent, Θ would be .91 where networks have .94."""
    limit = tp.derive(network, tp.Kernels())
    sample = limit.sample(X if network is chained else TOKENS, draws=8, seed=0)
    assert np.isfinite(sample.nngp).all()
    with pytest.raises(tp.NoLimitError, match="the move of a random logit that other random logits take part in"):
        sample.ntk  # noqa: B018


def finite(rng, n, count):
    """Kernels of so many networks of width n, and of those whose second layer has logits that are 0."""
    found = []
    for _ in range(count):
        x = TOKENS @ rng.standard_normal((2, n))
        Q, K, V, P, L = rng.standard_normal((5, n, n)) / n**0.5
        y = _attended(x @ Q.T, x @ K.T, x @ V.T)
        outputs = (_attended(q, y @ L.T, y).mean(axis=1) for q in (y @ P.T, 0 * y))
        found.append([out @ out.T / n for out in outputs])
    return np.array(found)


def _attended(q, k, v):
    weights = np.exp(q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5)
    return weights / weights.sum(axis=-1, keepdims=True) @ v


@pytest.mark.long
@pytest.mark.sampling
def test_a_second_layer_of_attention_agrees_with_networks():
    """Of width n and 2 n, which leaves terms in n^(−2); and not with a second layer whose logits are 0."""
    rng = np.random.default_rng(5)
    narrow, wide = finite(rng, 48, 4000), finite(rng, 96, 4000)
    truth = 2 * wide.mean(axis=0) - narrow.mean(axis=0)
    error = np.sqrt(4 * wide.var(axis=0) + narrow.var(axis=0)) / 4000**0.5
    sample = tp.derive(layers.bind(token=2), tp.Kernels(train=("v",))).sample(TOKENS, draws=4000, seed=1).nngp
    apart = np.abs(sample.mean(axis=0) - truth) / np.hypot(error, sample.std(axis=0) / 4000**0.5)
    assert (apart[0] < SIGMAS).all()
    assert (apart[1] > SIGMAS).any()
