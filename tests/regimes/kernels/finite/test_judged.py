"""Kernels judged at finite widths: formulas made by hand accepted, wrong twins rejected."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from checks import check_kernels

import tplimits as tp
from tplimits.regimes.kernels.finite.judged import kernel_sampler
from tplimits.sampling.estimate import Series
from tplimits.sampling.sampling import Given

DEPTH, W_STD, B_STD = 1, 1.3, 0.4


@tp.network
def relu_mlp(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    W: tp.Matrix["n", "n", "layer"],
    B: tp.Vector["layer"],
    v: tp.Vector,
    b: tp.Scalar,
):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    for layer in range(DEPTH):
        x = tp.relu(W_STD * (W.sel(layer=layer) @ x) + B_STD * B.sel(layer=layer))
    return tp.readout(v * x) + B_STD * b


MLP = relu_mlp.bind(layer=DEPTH)


def arc_cosine(K):
    """E relu(u)relu(u') and E step(u)step(u') for (u, u') ~ N(0, K) (Cho and Saul 2009)."""
    d = np.sqrt(np.diag(K))
    angle = np.arccos(np.clip(K / np.outer(d, d), -1, 1))
    first = np.outer(d, d) * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    return first, (np.pi - angle) / (2 * np.pi)


def formulas(X, train=None):
    """NNGP and NTK of the network by the usual recursion."""
    trained = {"U", "W", "B", "v", "b"} if train is None else set(train)
    K = X @ X.T
    Θ = K if "U" in trained else 0 * K
    for _ in range(DEPTH):
        first, slope = arc_cosine(K)
        Θ = W_STD**2 * slope * Θ + (W_STD**2 * first if "W" in trained else 0) + (B_STD**2 if "B" in trained else 0)
        K = W_STD**2 * first + B_STD**2
    first, slope = arc_cosine(K)
    Θ = slope * Θ + (first if "v" in trained else 0) + (B_STD**2 if "b" in trained else 0)
    return first + B_STD**2, Θ


@pytest.fixture
def X(seed):
    return np.random.default_rng(seed).standard_normal((2, 4)) / 2


SMALL = {"widths": (8, 16, 32, 64)}


@pytest.mark.long
@pytest.mark.sampling
def test_the_relu_mlp_is_accepted_and_its_wrong_twin_rejected(X, seed):
    nngp, ntk = formulas(X)
    verdict = check_kernels(MLP, X, None, nngp, ntk, seed=seed, **SMALL)
    assert verdict.accepted, verdict
    assert len(verdict.rows) == 6 and verdict.rows[0].claim.name == "K[0,0]" and verdict.rows[-1].claim.name == "Θ[1,1]"
    for twin in ({"nngp": 1.02 * nngp}, {"Θ[0,0]": 0.98 * ntk[0, 0]}):
        assert not check_kernels(MLP, X, None, claims=twin, seed=seed, **SMALL).accepted


@pytest.mark.long
@pytest.mark.sampling
def test_rectangles_and_frozen_parameters(X, seed):
    train = ("W", "b")
    nngp, ntk = formulas(X, train)
    verdict = check_kernels(MLP, X[:1], X[1:], nngp[:1, 1:], ntk[:1, 1:], train=train, seed=seed, **SMALL)
    assert verdict.accepted, verdict
    assert [row.claim.name for row in verdict.rows] == ["K[0,0]", "Θ[0,0]"]
    everything = formulas(X)[1]
    verdict = check_kernels(MLP, X[:1], X[1:], ntk=everything[:1, 1:], train=train, seed=seed, **SMALL)
    assert not verdict.accepted


@tp.network
def several(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector["unit"]):
    return v * tp.sum(U * ξ, over="d")


@pytest.mark.long
def test_outputs_are_independent(X, seed):
    """f = v·Uξ: K = ξᵀξ' δ, Θ = ξᵀξ' (δ + δ) in the limit."""
    gram = X @ X.T
    options = {"given": {"unit": 2}, "seed": seed, **SMALL}
    verdict = check_kernels(several, X, None, gram, 2 * gram, **options)
    assert verdict.accepted, verdict
    assert verdict.rows[1].claim.name == "K[0,0;0,1]" and verdict.rows[1].claim.value == 0
    full = np.einsum("ij,ab->ijab", gram, np.eye(2))
    assert check_kernels(several, X, None, full, draws=64, **options).accepted
    full[0, 0, 0, 1] = 0.3 * gram[0, 0]
    assert not check_kernels(several, X, None, full, **options).accepted


def test_wide_keys_and_ratios(seed):
    """A matrix from n to k = n/2: Θ gets (n₁/n₀)-weighted parts of widths that differ."""

    @tp.network
    def wide(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix["k", "n"], B: tp.Matrix["n", "k"], v: tp.Vector):
        return v * (B @ (A @ tp.sum(U * ξ, over="d")))

    gram = np.ones((1, 1)) * 4
    ρ = 0.5
    # v: 1, B: ⟨dh|dh'⟩⟨x|x'⟩ = 1, A: (k/n)·⟨dy|dy'⟩_k = (k/n)(n/k) = 1, U: 1, each times ξᵀξ'
    options = {"ratios": {"k": ρ}, "seed": seed, "draws": 2000, **SMALL}
    verdict = check_kernels(wide, [[2.0]], None, gram, 4 * gram, **options)
    assert verdict.accepted, verdict
    assert not check_kernels(wide, [[2.0]], None, ntk=(3 + ρ) * gram, **options).accepted


def test_the_numbers_do_not_depend_on_who_runs_them(X):
    nngp, ntk = formulas(X)
    options = {"widths": (8, 16), "draws": 40, "seed": 5}
    alone = check_kernels(MLP, X, None, nngp, ntk, **options)
    with ThreadPoolExecutor(2) as threads:
        other = check_kernels(MLP, X, None, nngp, ntk, executor=threads, **options)
    assert alone.table == other.table


def test_roots_of_widths_ask_for_their_powers(seed):
    @tp.network
    def shaped(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * (1 + 1 / tp.sqrt(tp.n)) * tp.relu(tp.sum(U * ξ, over="d"))

    verdict = check_kernels(shaped, [[1.0]], None, [[0.5]], seed=seed, draws=200, widths=(16, 32, 64))
    assert str(verdict.rows[0].series) == "L + b/√n + c/n" and verdict.rows[0].series != Series()


def test_what_cannot_be_checked(X):
    nngp, _ = formulas(X)
    for options, message in (
        ({"nngp": nngp[:1]}, r"`nngp` has shape \(1, 2\); it needs \(2, 2\)"),
        ({"nngp": nngp * np.nan}, "`nngp` has NaN or infinite entries"),
        ({"nngp": "a"}, "`nngp` is given a value of type str"),
        ({"claims": {"K[0,7]": 1}}, r"there is no `K\[0,7\]` to check; there is nngp, ntk, K\[0,0\]"),
        ({"claims": {"K[0,0]": [1, 2]}}, r"the claim on `K\[0,0\]` has shape \(2,\)"),
        ({}, "there is no claim to judge; claim nngp, ntk, or single entries"),
        ({"nngp": nngp, "level": 2}, "the level is a probability"),
        ({"nngp": nngp, "widths": (8,)}, "needs at least 2 widths"),
        ({"nngp": nngp, "draws": 3}, "each width needs at least 8 draws"),
        ({"nngp": nngp[:, :1], "X2": np.ones((1, 3))}, r"X1 and X2 give `ξ` shapes \(4,\) and \(3,\)"),
    ):
        with pytest.raises(tp.CheckError, match=message):
            check_kernels(MLP, X, **options)
    with pytest.raises(tp.EvaluationError, match="`V` is no parameter of `relu_mlp`"):
        check_kernels(MLP, X, nngp=nngp, train=("V",))


def test_work_grows_with_inputs_and_width(X):
    small = kernel_sampler(MLP, X[:1], None, 0, Given(), None)
    large = kernel_sampler(MLP, X, None, 0, Given(), None)
    assert small.work(64) < large.work(64) < large.work(128) and large.batch(512) >= 1
