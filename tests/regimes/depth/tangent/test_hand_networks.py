"""Laws of gradients along depth against networks and backpropagation written by hand, with twins that are rejected."""

from __future__ import annotations

import functools

import hand_gradients as hand
import numpy as np
import pytest
import shaped
from scipy import stats

import tplimits as tp

pytestmark = pytest.mark.sampling
QUANTILES = np.array([0.05, 0.5, 0.95])
N, DRAWS = 56, 240
#: 1e-2 over all quantiles of this file that are claimed to agree, two-sided
LEVEL = 1e-2 / 150
CAUSAL = np.tril(np.random.default_rng(5).uniform(0.1, 1, (3, 3)))
RELU = {"c_plus": 0.1, "c_minus": -1.0}


def equal(m, ρ):
    return np.full((m, m), ρ) + (1 - ρ) * np.eye(m)


def attention(n, γ, τ0, **more):
    return hand.Attention(n, γ, τ0, **more)


def branch(n, γ, c_plus, c_minus):
    return hand.ReluBranch(n, c_plus, c_minus, γ)


#: block, layers by hand of n and constants, constants, V0, T, token that is read, ratios
CASES = {
    "perceptron": (
        lambda: shaped.relu_mlp,
        lambda c: [hand.Perceptron(N, **c)],
        ({"c_plus": 0.8, "c_minus": -0.3}, [[1.0, -0.4], [-0.4, 1.5]], 0.4, 0),
    ),
    "uneven causal mask": (
        lambda: shaped.masked_attention(CAUSAL),
        lambda c: [attention(N, **c, mask=CAUSAL)],
        ({"γ": 0.6, "τ0": 1.2}, equal(3, 0.2), 0.4, 2),
    ),
    "heads": (
        lambda: shaped.heads_attention.bind(head=3),
        lambda c: [attention(N, **c, heads=3, k=N // 2)],
        ({"γ": 0.6, "τ0": 1.0}, equal(2, -0.3), 0.4, 0),
    ),
    "transformer": (
        lambda: tp.stack(shaped.relu_resnet, shaped.shaped_attention),
        lambda c: [branch(N, c["γ"], **RELU), attention(N, c["γ"], c["τ0"])],
        ({"γ": 0.4, "τ0": 0.9, **RELU}, equal(2, 0.2), 0.4, 1),
    ),
}


@functools.cache
def derived(name):
    return tp.derive(CASES[name][0](), tp.Proportional(tangent=True))


@functools.cache
def networks(name):
    """log(|∂L/∂θ|²/n) at the first layer and in the middle."""
    constants, V, T, token = CASES[name][2]
    layers = round(T * N)
    found = hand.log_gradients(CASES[name][1](constants), V, layers, DRAWS, (0, layers // 2), token)
    return {(of, 0.5 if layer else 0.0): logs for (of, layer), logs in found.items()}


def apart(networks, paths, level=LEVEL):
    """Which quantiles of the paths are not those of networks, two-sided, by how many networks lie below."""
    at = np.quantile(paths, QUANTILES)
    below = (networks[:, None] < at).mean(axis=0)
    error = np.sqrt(QUANTILES * (1 - QUANTILES) * (1 / len(networks) + 1 / len(paths)))
    return QUANTILES[np.abs(below - QUANTILES) > stats.norm.isf(level / 2) * error + 1 / len(networks)]


def laws(name, of=None, **changed):
    constants, V, T, token = CASES[name][2]
    ratios = {"k": 0.5} if name == "heads" else None
    asked = {"T": T, "layers": (0.0, 0.5), "readout": token, "paths": 1024, "dt": 0.02, "stop": 100.0, "ratios": ratios}
    of = of or [*(f"input[{a}]" for a in range(len(V))), *derived(name).limit.parameters, "total"]
    return derived(name).gradients(np.array(V), of=of, **{**asked, **constants, **changed})


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_every_gradient_has_its_law(name):
    compared = 0
    for row in laws(name).rows:
        assert row.stopped.mean() < 0.01
        own = networks(name)[row.of, row.layer] + (0 if row.of == "total" else row.order * np.log(N))
        if np.isneginf(own).all():
            assert np.isneginf(row.logs[~row.stopped]).all()  # the token is not seen by the one that is read
            continue
        assert not len(apart(own, np.where(row.stopped, np.inf, row.logs))), (row.of, row.layer)
        compared += 1
    assert compared >= 5


@pytest.mark.long
def test_other_numbers_of_heads_are_told_apart():
    """|∂L/∂W_Q|² of one head is as wide as one random Gram matrix, that of three a mean of three."""
    one = tp.derive(shaped.heads_attention.bind(head=1), tp.Proportional(tangent=True))
    constants, V, T, token = CASES["heads"][2]
    asked = {"readout": token, "paths": 4096, "dt": 0.02, "ratios": {"k": 0.5}}
    law = one.gradients(V, T=T, of=["WQ", "WK"], layers=(0.0, 0.5), **asked, **constants)
    own = networks("heads")
    assert any(len(apart(own[row.of, row.layer] + np.log(N), row.logs, 1e-2 / 12)) for row in law.rows)


@pytest.mark.long
def test_responses_to_queries_and_keys_start_along_the_state():
    """One layer adds V x to x, and a response is made of the same: C²/(V D) is of order 1, not 0.

    With 300 networks its mean of .25 is known to .015: a start from C = 0 is rejected with certainty.
    """
    n, draws, V = 128, 300, equal(2, 0.2)
    layer, rng = attention(n, 0.7, 1.0), np.random.default_rng(8)
    sde = tp.derive(shaped.shaped_attention, tp.Proportional(tangent=True))
    law = sde.gradients(V, T=0.1, of=["WQ", "WK"], layers=(1.0,), paths=2048, γ=0.7, τ0=1.0)
    for place, row in enumerate(law.rows):
        x, weights = hand.states(V, draws, n, rng), layer.weights(rng, draws)
        δ = [np.zeros_like(W) for W in weights]
        δ[place] = layer.weights(rng, draws)[place]
        up, down = (layer.forward(x, [W + s * d for W, d in zip(weights, δ, strict=True)]) for s in (0.25, -0.25))
        state, response = (up + down)[:, 0] / 2, (up - down)[:, 0]
        cosines = (state * response).sum(axis=1) ** 2 / ((state**2).sum(axis=1) * (response**2).sum(axis=1))
        found, claimed = cosines.mean(), row.alignments[:, 0].mean()
        error = np.hypot(cosines.std() / draws**0.5, row.alignments[:, 0].std() / 2048**0.5)
        assert abs(found - claimed) < stats.norm.isf(1e-2 / 4) * error + 1 / n < found / 2, (found, claimed, error)


def clipped_correlation(one, two):
    """That of two logs, each clipped to its 5 and 95 % quantiles: what explodes counts as above all others."""
    return np.corrcoef(*(np.clip(v, *np.quantile(v, [0.05, 0.95], method="lower")) for v in (one, two)))[0, 1]


@pytest.mark.long
def test_tangents_that_never_meet_the_state_are_a_wrong_law():
    """C kept at 0 (the same paths, C put to 0 in every step), as if the way back were independent of the way there.

    Given the way there, responses and gradients have one law (duality), so that |∂L/∂x_0|² and |x_T|² have a joint one.
    """
    sde, T, steps, n, draws = tp.derive(shaped.shaped_attention, tp.Proportional(tangent=True)), 0.6, 30, 40, 1000
    constants, V0 = {"γ": 0.5**0.5, "τ0": 1.0}, equal(2, 0.8)
    asked = {"paths": 8192, "dt": T / steps, "stop": 100.0, **constants}
    found = hand.log_gradients([attention(n, **constants)], V0, round(T * n), draws, readout=0)
    networks = clipped_correlation(found["input[0]", 0], found["end", 0])
    row = sde.gradients(V0, T=T, of="input[0]", layers=(0.0,), readout=0, **asked).rows[0]
    law = clipped_correlation(*(np.where(row.stopped, np.inf, v) for v in (row.logs, np.log(row.ends[:, 0]))))
    V, D, size = V0, np.broadcast_to(np.diag([1.0, 0.0]), (8192, 2, 2)), np.zeros(8192)
    for k in range(steps):
        one = sde.simulate(V, D, T=T / steps, seed=k, **asked)
        total = np.trace(one.D, axis1=1, axis2=2)
        V, D, size = one.V, one.D / total[:, None, None], size + np.log(total)
    twin = clipped_correlation(size + np.log(D[:, 0, 0]), np.log(V[:, 0, 0]))
    error = np.sqrt(1 / draws + 1 / 8192)
    assert abs(networks - law) < stats.norm.isf(0.5e-2) * error < abs(networks - twin)


@pytest.mark.long
@pytest.mark.parametrize("name", ["residual", "perceptron"])
def test_layers_are_correlated(name):
    """Gradients of the first layer with those of the middle and the last; of independent ones: 0."""
    slopes = {"c_plus": 0.0, "c_minus": -1.0}
    γ, T, n, draws = 0.7, 0.98 if name == "perceptron" else 1.0, 48, 500
    block, given = (shaped.relu_resnet, {"γ": γ}) if name == "residual" else (shaped.relu_mlp, {})
    layer = branch(n, γ, **slopes) if name == "residual" else hand.Perceptron(n, **slopes)
    layers, matrix = round(T * n), "W1" if name == "residual" else "W"
    found = hand.log_gradients([layer], [[1.0]], layers, draws, (0, layers // 2, layers - 1))
    chain = tp.derive(block, tp.Proportional(tangent=True)).chain(T=T, paths=20000, dt=0.02, **slopes, **given)
    assert chain.s == pytest.approx(1.0 if name == "perceptron" else 2 * γ**2)
    for place, other in ((0.5, layers // 2), (1.0, layers - 1)):
        r = np.corrcoef(found[matrix, 0], found[matrix, other])[0, 1]
        off = np.sqrt(draws - 3) * (np.arctanh(r) - np.arctanh([chain.correlation(0.0, place), 0.0]))
        assert abs(off[0]) < stats.norm.isf(1e-2 / 8) < off[1]  # four claims
        assert place < 1 or r > 0.1


def test_readouts_that_are_the_features():
    """L = |x_T|²/2: the law of |∂L/∂x_0|²/n²; that of a readout independent of the path is a wrong twin."""
    slopes, T, n = {"c_plus": 0.4, "c_minus": -0.2}, 0.5, 80
    sde = tp.derive(shaped.relu_mlp, tp.Proportional(tangent=True))
    found = hand.log_gradients([hand.Perceptron(n, **slopes)], [[1.0]], round(T * n), 300, readout="features")
    aligned, normal = (sde.chain(T=T, paths=8192, readout=r, **slopes).G[:, 0] for r in ("features", "normal"))
    own = found["input[0]", 0]
    assert not len(apart(own, np.log(aligned), 1e-2 / 3))
    assert len(apart(own, np.log(normal), 1e-2 / 3))


@tp.block
def one_matrix(x: tp.State["token"], W: tp.Matrix, WV: tp.Matrix, *, γ, τ0):
    """Queries are keys: the logit of two tokens moves by each of them."""
    q, v = W @ x, WV @ x
    Y = (tp.avg(q * q.rename(token="key")) - tp.avg(x * x.rename(token="key"))) / τ0
    A = tp.softmax(Y, over="key") - 1 / tp.size("key")
    return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(A * v.rename(token="key"), over="key"))


@pytest.mark.long
def test_a_matrix_that_makes_queries_and_keys():
    """|∂L/∂W|² of the last layer, in networks: δY = (δq qᵀ + q δqᵀ)/(n τ0) at q and δq of covariance V."""
    V, n, draws, γ, τ0 = np.array([[1.2, 0.4], [0.4, 0.8]]), 256, 1500, 0.5, 0.8
    sde = tp.derive(one_matrix, tp.Proportional(tangent=True))
    claimed = sde.gradients(V, T=1e-6, dt=1e-6, of="W", layers=(1.0,), γ=γ, τ0=τ0).of("W", 1.0).logs
    q, δq = np.linalg.cholesky(V) @ np.random.default_rng(0).standard_normal((2, draws, 2, n))
    back, δback = np.swapaxes(q, 1, 2), np.swapaxes(δq, 1, 2)
    A = np.exp((q @ back / n - V) / τ0)
    A /= A.sum(axis=-1, keepdims=True)
    δY = (δq @ back + q @ δback) / (n * τ0)
    δA = A * (δY - (A * δY).sum(axis=-1, keepdims=True))
    found = np.log(n * γ**2 * np.einsum("dav,vk,dak->d", δA, V, δA))
    assert stats.ks_2samp(claimed, found).pvalue > 1e-3
    assert stats.ks_2samp(claimed, found + np.log(4)).pvalue < 1e-12
