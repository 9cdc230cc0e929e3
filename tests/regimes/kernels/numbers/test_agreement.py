"""The ways to one number agree: statements, tables, compiled loop, many digits; recursions by hand near ρ = 1."""

from __future__ import annotations

import functools
from typing import Any

import mpmath
import numpy as np
import pytest
import reference_kernels as R
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import ACTIVATIONS, dyadic, mlp, mlp_kernels, relative_error

import tplimits as tp
from tplimits.regimes.kernels.numbers import evaluation, request
from tplimits.regimes.kernels.numbers.passes import plan, planning
from tplimits.regimes.kernels.numbers.precise import precise_pairs

Array = np.ndarray
DISTANCES = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9]


@functools.cache
def limit(name: str, depth: int, σb: float) -> tp.KernelLimit:
    return tp.derive(mlp(depth, name, 1.25, σb), tp.Kernels())


def ladder(scale: float = 1.0) -> Array:
    """An input, and others at smaller and smaller distances from it and from its opposite."""
    x, e = dyadic(7, 2, 6)
    return scale * np.stack([x, *(x + δ * e for δ in DISTANCES), *(-x + δ * e for δ in DISTANCES)])


def by_hand(name: str, depth: int, σb: float, X: Array) -> tuple[Array, Array]:
    with mpmath.workdps(50):
        return R.floats(mlp_kernels(R.high(X), depth, name, 1.25, σb))


# -- near-coincident pairs ------------------------------------------------------------------------------


@pytest.mark.parametrize("σb", [0, 0.5])
@pytest.mark.parametrize("name", ["relu", "abs", "leaky_relu"])
def test_close_pairs_of_deep_networks(name, σb):
    """Kernels have a term of order of the distance, which rounding of 1 − ρ² would drown below 1e-8."""
    X = ladder()
    found, (nngp, ntk) = limit(name, 3, σb).evaluate(X), by_hand(name, 3, σb, X)
    assert relative_error(found.nngp, nngp) < 1e-13
    assert relative_error(found.ntk, ntk) < 1e-13
    slopes = np.abs(ntk[0, 1:8] - ntk[0, 0]) / DISTANCES
    assert slopes.min() > 1e-3 * ntk[0, 0], "the distance is seen at first order"


def attention_by_hand(X: Array) -> tuple[Array, Array]:
    with mpmath.workdps(50):
        x = R.activation(R.dense(R.data(R.high(X))), "relu")
        A = np.stack([_softmax(x.K[i, :, i]) for i in range(len(X))])
        y = R.mix(x, A)
        y = R.Layer(y.K, 2 * y.K + y.T, x.mean * 0, x.real)
        return R.floats(R.output(R.pool(R.activation(y, "relu"))))


def _softmax(G: Array) -> Array:
    E = np.vectorize(mpmath.exp, otypes=[object])(G)
    return E / E.sum(axis=1, keepdims=True)


@tp.network
def attention(ξ: tp.Input["token", "d"], U: tp.Vector["d"], Q: tp.Matrix, V: tp.Matrix, WO: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
    q = Q @ x
    A = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
    y = WO @ tp.sum(A * (V @ x).rename(token="key"), over="key")
    return v * tp.mean(tp.relu(y), over="token")


def test_close_pairs_through_attention():
    x, e = dyadic(8, 2, 2, 4)
    X = np.stack([x, *(x + δ * e for δ in DISTANCES[1::2]), x[::-1]])
    found, (nngp, ntk) = tp.derive(attention, tp.Kernels()).evaluate(X), attention_by_hand(X)
    assert relative_error(found.nngp, nngp) < 1e-11
    # a root of ρ² in 64 bits: 1e-19 of a determinant is 3e-10 of an angle
    assert relative_error(found.ntk, ntk) < 1e-8


@pytest.mark.parametrize("wave", [tp.sin, tp.cos, tp.gelu, tp.erf])
def test_coinciding_inputs_between_waves_and_kinks(wave):
    """The determinant is lost between two kinds of functions: such pairs are done in many digits."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector, b: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        return v * tp.relu(V @ wave(W @ tp.relu(h) + b / 4) + V @ h)

    x, e = dyadic(10, 2, 4)
    pair = tp.derive(net, tp.Kernels()).evaluate(np.stack([x, x, x + 1e-9 * e]))
    for kernel in pair:
        np.testing.assert_allclose(kernel[0, 1], kernel[0, 0], rtol=1e-13)
        np.testing.assert_allclose(kernel[0, 2], kernel[0, 0], rtol=1e-7)


# -- ways to one number -----------------------------------------------------------------------------------


def tables_alone(found: tp.KernelLimit, X: Array, Y: Array | None, monkeypatch) -> tuple[Array, Array]:
    with monkeypatch.context() as patch:
        patch.setattr(planning, "is_plain", lambda _: False)
        pair = tp.derive(found.program, tp.Kernels()).evaluate(X, Y)
    return pair.nngp, pair.ntk


@pytest.mark.parametrize("σb", [0, 0.5])
@pytest.mark.parametrize("name", ["relu", "leaky_relu", "erf", "gelu", "sin", "square", "identity"])
def test_loop_tables_and_many_digits(name, σb, monkeypatch):
    X, Y = dyadic(3, 5, 6), dyadic(4, 4, 6)
    found = limit(name, 2, σb)
    interpreted = tuple(found.evaluate(X, Y))
    arrays = tables_alone(found, X, Y, monkeypatch)
    asked = request.request(found.derivation, X, Y, {}, None)
    places = np.array([(i, j) for i in range(5) for j in range(4)])
    digits = precise_pairs(found.derivation, asked.one, asked.other, places, asked.constants).T.reshape(2, 5, 4)
    for one, two, three in zip(interpreted, arrays, digits, strict=True):
        size = np.abs(three).max()
        np.testing.assert_allclose(one, three, rtol=1e-13, atol=1e-14 * size)
        np.testing.assert_allclose(two, three, rtol=1e-13, atol=1e-14 * size)


@pytest.mark.long
def test_networks_may_be_deep(monkeypatch):
    """150 layers that keep ⟨x|x⟩: no limit of the interpreter on frames is in the way."""
    X = dyadic(8, 3, 4)
    found = tp.derive(mlp(150, "abs", 1, 0), tp.Kernels())
    with mpmath.workdps(50):
        wanted = R.floats(mlp_kernels(R.high(X), 150, "abs", 1, 0))
    for one, two in zip(tables_alone(found, X, None, monkeypatch), wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10)


@pytest.mark.parametrize("bound", ["_INTERPRETED", "_REPEATED_STATEMENTS"])
def test_what_is_compiled_for_a_later_call_is_the_interpreted_one(bound, monkeypatch):
    X = np.concatenate([ladder(), dyadic(5, 4, 6)])
    found, planned = limit("relu", 1, 0.5), []
    monkeypatch.setattr(plan, "_REPEATED_STATEMENTS", 1 << 40)
    wanted = found.evaluate(X)
    monkeypatch.setattr(plan, bound, 0)
    made = evaluation.Planned
    monkeypatch.setattr(evaluation, "Planned", lambda *a, **k: planned.append(made(*a, **k)) or planned[-1])
    for one, two in zip(found.evaluate(X), wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13)
    assert any(p.plan.is_compiled for p in planned)


@pytest.mark.parametrize("tile", [1, 40, 1 << 21])
def test_tiles_do_not_change_numbers(tile, monkeypatch):
    X = dyadic(6, 5, 3, 4)
    found = tp.derive(attention, tp.Kernels())
    wanted = found.evaluate(X)
    monkeypatch.setattr(evaluation, "_TILE", tile)
    for one, two in zip(found.evaluate(X), wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-14)


@pytest.mark.parametrize("network", ["mlp", "attention"])
def test_one_batch_is_both(network):
    found, X = (
        (limit("relu", 3, 0.5), ladder())
        if network == "mlp"
        else (tp.derive(attention, tp.Kernels()), dyadic(9, 4, 3, 5))
    )
    for one, two in zip(found.evaluate(X), found.evaluate(X, X.copy()), strict=True):
        np.testing.assert_allclose(one, one.T, rtol=1e-14)
        np.testing.assert_allclose(one, two, rtol=1e-13)
    single = found.evaluate(X[2:3], X[1:2])
    np.testing.assert_allclose(single.ntk[0, 0], found.evaluate(X).ntk[2, 1], rtol=1e-13)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["relu", "gelu", "erf"]), st.integers(0, 2**32 - 1), st.permutations(range(5)))
def test_order_of_inputs_and_scale(name, seed, order):
    """Kernels of a reordered batch are reordered; without biases a ReLU network scales with its inputs."""
    X, found = np.random.default_rng(seed).standard_normal((5, 6)), limit(name, 2, 0)
    pair, moved = found.evaluate(X), found.evaluate(X[order])
    for one, two in zip(pair, moved, strict=True):
        np.testing.assert_allclose(one[np.ix_(order, order)], two, rtol=1e-12, atol=1e-14)
        assert np.linalg.eigvalsh(one).min() > -1e-12 * np.abs(one).max()
    if name == "relu":
        np.testing.assert_allclose(found.evaluate(4 * X).ntk, 16 * pair.ntk, rtol=1e-12)


# -- what must not matter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_parts_of_the_tangent_kernel_add_up(name):
    found, X = limit(name, 3, 0.5), dyadic(2, 3, 6)
    parts = [found.contribution(p).evaluate(X) for p in found.trained]
    whole = found.evaluate(X)
    np.testing.assert_allclose(sum(p.ntk for p in parts), whole.ntk, rtol=1e-13)
    assert all(np.abs(p.ntk).max() > 1e-3 for p in parts)
    for p in parts:
        np.testing.assert_allclose(p.nngp, whole.nngp, rtol=1e-15)
    np.testing.assert_array_equal(found.contribution().evaluate(X).ntk, np.zeros((3, 3)))


def test_names_and_order_of_arguments_do_not_matter():
    φ = ACTIVATIONS["gelu"]

    @tp.network
    def one(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        return v * (φ(W @ h) + tp.relu(V @ φ(W @ h)))

    @tp.network
    def other(q: tp.Vector, zeta: tp.Matrix, data: tp.Input["entry"], alpha: tp.Matrix, first: tp.Vector["entry"]):
        out = alpha @ tp.sum(first * data, over="entry")
        b = φ(out)
        a = tp.relu(zeta @ b)
        return (a + b) * q

    X = dyadic(1, 4, 5)
    for a, b in zip(tp.derive(one, tp.Kernels()).evaluate(X), tp.derive(other, tp.Kernels()).evaluate(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("lengths", [(4, 4), (4, 2)])
def test_a_sum_of_functions_may_stand_in_one_line(lengths):
    """v · mean relu(Σ Uξ): the running index of the second input stays that of its own sum."""

    @tp.network
    def inline(ξ: tp.Input["d", "token"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.mean(tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))), over="token")

    X, Y = (dyadic(k, 3, length, 5) for k, length in enumerate(lengths))
    pair = tp.derive(inline, tp.Kernels()).evaluate(X.transpose(0, 2, 1), Y.transpose(0, 2, 1))
    both = np.concatenate([X, np.concatenate([Y, np.zeros((3, lengths[0] - lengths[1], 5))], axis=1)])
    real = np.arange(lengths[0]) < np.repeat(lengths, 3)[:, None]
    K, T = R.output(R.pool(R.activation(R.dense(R.data(both, real)), "relu")))
    np.testing.assert_allclose(pair.nngp, K[:3, 3:], rtol=1e-12)
    np.testing.assert_allclose(pair.ntk, T[:3, 3:], rtol=1e-12)


# -- draws of logits --------------------------------------------------------------------------------------


def many_heads(apart: bool) -> tp.Program:
    """The mean over heads as a factor of the output, or as a vector of its own."""

    @tp.network
    def heads(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "head"],
        K: tp.Matrix["n", "n", "head"],
        V: tp.Matrix["n", "n", "head"],
        WO: tp.Matrix["n", "n", "head"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
        A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
        y = WO @ tp.sum(A * (V @ x).rename(token="key"), over="key")
        if apart:
            z = tp.sum(y, over="head") / tp.sqrt(tp.size("head"))
            return v * z
        return v * tp.sum(y, over="head") / tp.sqrt(tp.size("head"))

    return heads


HEADS = tp.derive(many_heads(True), tp.Kernels(infinite=("head",)))
TOKENS = dyadic(11, 3, 2, 4)


def test_a_mean_over_heads_may_be_a_factor():
    other = tp.derive(many_heads(False), tp.Kernels(infinite=("head",)))
    for one, two in zip(HEADS.evaluate(TOKENS, seed=3), other.evaluate(TOKENS, seed=3), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_draws_are_those_of_the_seed():
    one, again, other = (HEADS.evaluate(TOKENS, seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(one.ntk, again.ntk)
    assert (one.ntk != other.ntk).all()
    assert (np.abs(one.ntk - other.ntk) < 6 * np.hypot(one.ntk_error, other.ntk_error)).all()


def test_the_gram_matrix_of_drawn_logits_is_semidefinite():
    """Few draws, all inputs sharing them: an estimate with draws of their own for each pair need not be."""
    for seed in range(5):
        for kernel in HEADS.evaluate(TOKENS, draws=16, replicates=4, seed=seed):
            flat = kernel.transpose(0, 2, 1, 3).reshape(6, 6)
            np.testing.assert_allclose(flat, flat.T, rtol=1e-13)
            assert np.linalg.eigvalsh(flat).min() > -1e-13 * np.abs(flat).max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed=-1"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"draws": 0}, "draws=0"),
        ({"draws": 1.5}, "draws=1.5"),
        ({"replicates": 0}, "replicates=0"),
        ({"replicates": "8"}, "replicates='8'"),
    ],
)
def test_bad_draws(options, message):
    with pytest.raises(tp.EvaluationError, match=message):
        HEADS.evaluate(TOKENS, **options)


def arccosine(a: Any, c: Any, b: Any) -> Any:
    """E relu relu at covariances in many digits."""
    ρ = c / mpmath.sqrt(a * b)
    angle = mpmath.acos(min(max(ρ, -1), 1))
    return mpmath.sqrt(a * b) * (mpmath.sin(angle) + (mpmath.pi - angle) * mpmath.cos(angle)) / (2 * mpmath.pi)


def test_means_over_tokens_with_a_mask_where_two_inputs_are_one():
    """Sums of data that are no inner product of one array: pairs on one line are done again, without many digits."""

    @tp.network
    def net(ξ: tp.Input["token", "d"], m: tp.Input["token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(m * tp.sum(U * ξ, over="d"), over="token") / tp.sum(m, over="token")
        return v * tp.relu(W @ tp.relu(x))

    rng = np.random.default_rng(4)
    words, mask = rng.standard_normal((4, 5, 3)), np.array([[1, 1, 1, 0, 0]] * 2 + [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    words[1, :3] = words[0, [2, 0, 1]]  # the same words in another order
    found = tp.derive(net, tp.Kernels()).evaluate({"ξ": words, "m": mask.astype(float)}).nngp
    with mpmath.workdps(40):
        exact = [[mpmath.mpf(float(x)) for x in row] for row in words.reshape(4, -1)]
        means = [
            [mpmath.fsum(row[3 * t + d] * int(mask[i, t]) for t in range(5)) / int(mask[i].sum()) for d in range(3)]
            for i, row in enumerate(exact)
        ]
        K = [[mpmath.fdot(a, b) for b in means] for a in means]
        for _ in range(2):
            K = [[arccosine(K[i][i], K[i][j], K[j][j]) for j in range(4)] for i in range(4)]
        wanted = np.array([[float(x) for x in row] for row in K])
    assert np.abs(found / wanted - 1).max() < 1e-12
    assert np.abs(found[0, 1] / wanted[0, 2] - 1) > 1e-2


# -- determinants that are carried along ----------------------------------------------------------------------------


def test_residual_branches_keep_the_digits_of_inputs_on_one_line():
    """Sums of kernels have determinants of their own: the tangent kernel had an error of 1e-10 here."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for i in range(3):
            x = x + tp.relu(W.sel(layer=i) @ x) / 2
        return v * x

    x, e = dyadic(12, 2, 5)
    X = np.stack([x, 2 * x, -x, x + 2.0**-30 * e, x - 2.0**-17 * e, e])
    found = tp.derive(net.bind(layer=3), tp.Kernels()).evaluate(X)
    with mpmath.workdps(50):
        exact = [[mpmath.mpf(float(a)) for a in row] for row in X]
        K = [[mpmath.fdot(a, b) for b in exact] for a in exact]
        T, mean = K, [mpmath.mpf(0)] * 6
        for _ in range(3):
            half = [mpmath.sqrt(K[i][i] / (8 * mpmath.pi)) for i in range(6)]  # the mean of a branch
            shared = [[mean[i] * half[j] + half[i] * mean[j] for j in range(6)] for i in range(6)]
            angle = [[_angle(K[i][i], K[i][j], K[j][j]) for j in range(6)] for i in range(6)]
            slope = [[(mpmath.pi - t) / (2 * mpmath.pi) for t in row] for row in angle]
            T = [[T[i][j] + slope[i][j] * (T[i][j] + K[i][j]) / 4 for j in range(6)] for i in range(6)]
            ahead = [[arccosine(K[i][i], K[i][j], K[j][j]) / 4 + shared[i][j] for j in range(6)] for i in range(6)]
            K = [[K[i][j] + ahead[i][j] for j in range(6)] for i in range(6)]
            mean = [m + h for m, h in zip(mean, half, strict=True)]
        nngp = np.array([[float(k) for k in row] for row in K])
        ntk = np.array([[float(k + t) for k, t in zip(*rows, strict=True)] for rows in zip(K, T, strict=True)])
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-14)
    np.testing.assert_allclose(found.ntk, ntk, rtol=1e-13)
    assert np.abs(found.ntk[0, 3] / ntk[0, 0] - 1) > 1e-12, "else a digit that is lost shows nowhere"


@pytest.mark.parametrize("factor", [3, 0.25])
def test_layers_that_are_scaled_keep_the_digits_of_inputs_on_one_line(factor):
    """A factor in front of a layer stands squared in the kernel, and to the fourth power in its determinant."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for i in range(3):
            x = factor * tp.relu(W.sel(layer=i) @ x)
        return v * x

    x, e = dyadic(13, 2, 5)
    X = np.stack([x, x + 2.0**-24 * e, x - 2.0**-33 * e])
    found = tp.derive(net.bind(layer=3), tp.Kernels()).evaluate(X)
    with mpmath.workdps(50):
        exact = [[mpmath.mpf(float(a)) for a in row] for row in X]
        K = [[mpmath.fdot(a, b) for b in exact] for a in exact]
        T, c = K, mpmath.mpf(factor) ** 2
        for _ in range(3):
            slope = [
                [(mpmath.pi - _angle(K[i][i], K[i][j], K[j][j])) / (2 * mpmath.pi) for j in range(3)] for i in range(3)
            ]
            T = [[c * slope[i][j] * (T[i][j] + K[i][j]) for j in range(3)] for i in range(3)]
            K = [[c * arccosine(K[i][i], K[i][j], K[j][j]) for j in range(3)] for i in range(3)]
        ntk = np.array([[float(k + t) for k, t in zip(*rows, strict=True)] for rows in zip(K, T, strict=True)])
    np.testing.assert_allclose(found.ntk, ntk, rtol=3e-15)
    assert np.abs(found.ntk[0, 1] / ntk[0, 0] - 1) > 1e-9, "else an angle that is lost shows nowhere"


def _angle(a: Any, c: Any, b: Any) -> Any:
    return mpmath.acos(min(max(c / mpmath.sqrt(a * b), -1), 1))


def test_pairs_that_are_done_again_are_those_of_both_sides(monkeypatch):
    """Differences of kernels have no rule: pairs on one line are done in many digits, above the diagonal alone."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = tp.relu(tp.sum(U * ξ, over="d"))
        return v * tp.relu(W @ (h - tp.avg(h)))

    x, e = dyadic(13, 2, 5)
    X, asked = np.stack([x, e, x + 2.0**-30 * e, 3 * x]), []
    made = evaluation.precise_pairs
    monkeypatch.setattr(evaluation, "precise_pairs", lambda *a: asked.extend(map(tuple, a[3])) or made(*a))
    found = tp.derive(net, tp.Kernels()).evaluate(X)
    assert asked and all(i < j for i, j in asked)
    both = tp.derive(net, tp.Kernels()).evaluate(X, X + 0.0)
    for one, two in zip(found, both, strict=True):
        np.testing.assert_array_equal(one, one.T)
        np.testing.assert_allclose(one, two, rtol=1e-13)
