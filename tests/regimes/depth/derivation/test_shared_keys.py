"""Structured roots where logits share a matrix: one key for all heads, one for each group, rotated queries and keys."""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped

import tplimits as tp

γ, τ0 = 0.7, 0.8
NUMBERS = {"γ": γ, "τ0": τ0}


@tp.block
def one_key(
    x: tp.State["token"],
    WQ: tp.Matrix["k", "n", "head"],
    WK: tp.Matrix["k", "n"],
    WV: tp.Matrix["k", "n"],
    WO: tp.Matrix["n", "k", "head"],
    *,
    γ,
    τ0,
):
    v = WV @ x
    values = v.rename(token="key")
    A = tp.softmax(shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0), over="key")
    o = v + tp.sum(A * values, over="key") - tp.mean(values, over="key")
    return tp.sqrt(1 - γ**2) * x + γ * tp.sum(WO @ o, over="head") / tp.sqrt(tp.size("head"))


@tp.block
def grouped(
    x: tp.State["token"],
    WQ: tp.Matrix["k", "n", "group", "member"],
    WK: tp.Matrix["k", "n", "group"],
    WV: tp.Matrix["k", "n", "group"],
    WO: tp.Matrix["n", "k", "group", "member"],
    *,
    γ,
    τ0,
):
    v = WV @ x
    values = v.rename(token="key")
    A = tp.softmax(shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0), over="key")
    o = v + tp.sum(A * values, over="key") - tp.mean(values, over="key")
    all_heads = tp.sum(tp.sum(WO @ o, over="group"), over="member")
    return tp.sqrt(1 - γ**2) * x + γ * all_heads / tp.sqrt(tp.size("group") * tp.size("member"))


@tp.block
def written_out(
    x: tp.State["token"],
    Q1: tp.Matrix["k", "n"],
    Q2: tp.Matrix["k", "n"],
    WK: tp.Matrix["k", "n"],
    WV: tp.Matrix,
    WU: tp.Matrix,
    *,
    γ,
    τ0,
):
    """Two heads with one key, each with a matrix of its own."""
    k = (WK @ x).rename(token="key")
    y = 0
    for Q, V in ((Q1, WV), (Q2, WU)):
        v = V @ x
        A = tp.softmax(shaped.logits(Q @ x, k, τ0), over="key") - 1 / tp.size("key")
        y = y + v + tp.sum(A * v.rename(token="key"), over="key")
    return tp.sqrt(1 - γ**2) * x + γ * y / tp.sqrt(2)


def rotary(tokens, angle):
    """Queries and keys in two halves, turned by an angle that grows with the place of the token."""

    @tp.block
    def rotated(
        x: tp.State["token"],
        Q1: tp.Matrix["k", "n"],
        Q2: tp.Matrix["k", "n"],
        K1: tp.Matrix["k", "n"],
        K2: tp.Matrix["k", "n"],
        WV: tp.Matrix,
        *,
        γ,
        τ0,
    ):
        c, s = (tp.constant(f(angle * np.arange(tokens)), axes=("token",)) for f in (np.cos, np.sin))
        q, p, k, l = Q1 @ x, Q2 @ x, K1 @ x, K2 @ x  # noqa: E741
        first = shaped.logits(c * q - s * p, (c * k - s * l).rename(token="key"), τ0)
        second = shaped.logits(s * q + c * p, (s * k + c * l).rename(token="key"), τ0)
        v = WV @ x
        values = v.rename(token="key")
        A = tp.softmax((first + second) / tp.sqrt(2), over="key")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(A * values, over="key") - tp.mean(values, over="key"))

    return rotated


def with_one_key(weights_of):
    """Heads with one key; `weights_of` maps their logits, a list, to what multiplies the values of each."""

    @tp.block
    def heads(x: tp.State["token"], Q1: tp.Matrix, Q2: tp.Matrix, K: tp.Matrix, V1: tp.Matrix, V2: tp.Matrix, *, γ, τ0):
        k, y = (K @ x).rename(token="key"), 0
        weights = weights_of([tp.avg((Q @ x) * k) / τ0 for Q in (Q1, Q2)])
        for A, v in zip(weights, (V1 @ x, V2 @ x), strict=True):
            y = y + v + tp.sum(A * v.rename(token="key"), over="key")
        return tp.sqrt(1 - γ**2) * x + γ * y / tp.sqrt(2)

    return heads


def mixed(logits):
    """Talking heads, by numbers that are no short fractions."""
    mixture = np.random.default_rng(0).normal(size=(2, 2))
    return [tp.softmax(a * logits[0] + b * logits[1], over="key") - 1 / tp.size("key") for a, b in mixture]


def sloped(logits):
    """A slope for each head under a mask of e^(−40), which leaves small entries."""
    places = np.arange(3)
    distance = -np.abs(places[:, None] - places) - 40.0 * (places > places[:, None])
    biases = [tp.constant(s * distance, axes=("token", "key")) for s in (0.5, 1.0)]
    return [tp.softmax(Y + b, over="key") - tp.softmax(b, over="key") for Y, b in zip(logits, biases, strict=True)]


CASES = {
    "one key": (one_key, {"head": 3}, 1),
    "groups": (grouped, {"group": 2, "member": 2}, 1),
    "written out": (written_out, {}, 1),
    "rotary": (rotary(3, 0.7), {}, 2),
    "talking heads": (with_one_key(mixed), {}, 1),
    "slopes": (with_one_key(sloped), {}, 2),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    block, sizes, count = CASES[request.param]
    return tp.derive(block, tp.Proportional()), {**NUMBERS, **sizes}, count


def noise_map(sde, V, numbers):
    """J with dV = J g for all independent normals of a step."""
    m, L = len(V), np.linalg.cholesky(V)
    a, b = np.triu_indices(m)
    values = sde.values(m, numbers)
    isotropic = float(sde.root.isotropic.xreplace(values))
    columns = []
    for G in np.eye(m * m).reshape(-1, m, m):
        columns.append((np.sqrt(isotropic / 2) * L @ (G + G.T) @ L.T)[a, b])
        for response in sde.root.responses:
            columns.append(applied(response.form, V, L @ G @ L.T, sde.arrays, values)[a, b])
    return np.array(columns).T


def applied(form, V, R, arrays, values):
    total = 0
    for factors, c in form.terms.items():
        place, operands = {-4: 0, -3: 1}, []
        for label, at, _ in factors:
            operands += [{"V": V, "R": R, **arrays}[label], [place.setdefault(i, len(place)) for i in at]]
        total = total + float(c.xreplace(values)) * np.einsum(*operands, [0, 1])
    return total


@pytest.mark.long
def test_the_root_is_that_of_the_diffusion(case):
    sde, numbers, count = case
    assert sde.root is not None and len(sde.root.responses) == count
    V = published.random_covariance(3, 5)
    sigma = sde.diffusion_at(V, **numbers)
    J = noise_map(sde, V, numbers)
    assert np.abs(J @ J.T - sigma).max() < 1e-12 * np.abs(sigma).max()
    alone = published.packed(published.numpy_sigma_lin(V)) * float(sde.root.isotropic.xreplace(sde.values(3, numbers)))
    assert np.abs(alone - sigma).max() > 1e-3 * np.abs(sigma).max()  # the responses are needed


@pytest.mark.long
def test_rotated_logits_have_one_array_before_each_average():
    """Y = cos(θ(α − ν)) (q·k + p·l) + sin(θ(α − ν)) (q·l − p·k), so that E Y Y′ has a single array."""
    given = {**NUMBERS, "ratios": {"k": 1.0}}
    sde, V, m = tp.derive(rotary(3, 0.7), tp.Proportional()), published.random_covariance(3, 5), 3
    places = np.arange(m)
    turned = np.cos(0.7 * (places[:, None, None, None] - places[:, None, None] - places[:, None] + places))
    # E of two logits at α ν and β κ, of their softmax weights with what is left at second order
    law = np.einsum("ab,vk,avbk->avbk", V, V, turned) / τ0**2
    centred = law - law.mean(axis=1, keepdims=True)
    pairs = centred - centred.mean(axis=3, keepdims=True)
    squares = np.einsum("avav->av", law)
    mixed = np.einsum("avak->avk", law)
    second = (
        squares / 2 - mixed.mean(axis=2) - squares.mean(axis=1, keepdims=True) / 2 + mixed.mean(axis=(1, 2))[:, None]
    )
    moved = second @ V / m
    expected = γ**2 * (moved + moved.T + np.einsum("avbk,vk->ab", pairs, V) / m**2)
    np.testing.assert_allclose(sde.drift_at(V, **given), expected, rtol=1e-9)


def test_shared_keys_of_heads_are_those_of_heads_apart():
    """Logits of different heads are uncorrelated whether or not they share a key: the same SDE but for the values."""
    sde = tp.derive(one_key, tp.Proportional())
    apart = tp.derive(shaped.heads_attention, tp.Proportional())
    assert not sde.drift_form - apart.drift_form


def test_paths_have_the_law_of_the_dense_root():
    sde = tp.derive(one_key, tp.Proportional())
    V = published.random_covariance(2, 5)
    given = {"T": 0.2, "dt": 0.02, "paths": 4000, "head": 3, **NUMBERS}
    fast, dense = (sde.simulate(V, method=method, seed=i, **given) for i, method in enumerate(("psd", "dense")))
    for statistic in ("mean", "std"):
        (x, e), (y, f) = getattr(fast, statistic)(), getattr(dense, statistic)()
        assert (np.abs(x - y) < 4.5 * np.hypot(e, f)).all()
