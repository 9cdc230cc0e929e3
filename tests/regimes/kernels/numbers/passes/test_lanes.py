"""Compiled pairs give what the interpreter gives: at borders, for any taps, in both precisions, after other calls."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import tapped_networks as nets

import tplimits as tp
from tplimits.regimes.kernels.numbers import evaluation, request
from tplimits.regimes.kernels.numbers.passes import lanes, plan, planning
from tplimits.regimes.kernels.numbers.passes.blocks import Blocks
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

Array = np.ndarray


def data(many: int, size: int, seed: int = 0, channels: int = 2) -> Array:
    return np.random.default_rng([seed, size]).standard_normal((many, channels, size))


def compiled(limit: tp.KernelLimit, *X: Array) -> tp.KernelPair:
    """The kernels by one compiled function, which has to have a form."""
    asked = request.request(limit.derivation, *X, *([None] * (2 - len(X))), {}, None)
    made = planning.plan_for(limit.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))
    made.is_compiled, made.calls = True, 1  # as at a second call, which compiles what is done once for inputs too
    assert made.has_form
    assert all(made.own_nested(side) is not None for side in (1, 2))
    return limit.evaluate(*X)


def interpreted(network: tp.Program, *X: Array) -> tp.KernelPair:
    return tp.derive(network, tp.Kernels()).evaluate(*X)


def agree(network: tp.Program, *X: Array, rtol: float = 1e-12) -> None:
    for one, two in zip(compiled(tp.derive(network, tp.Kernels()), *X), interpreted(network, *X), strict=True):
        np.testing.assert_allclose(one, two, rtol=rtol)


def permuted(size: int, seed: int) -> Array:
    """Taps that move nothing alike, and leave places out."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(size), np.where(rng.random(size) < 0.4, -1, rng.permutation(size))])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("mean", [False, True])
def test_sizes_about_a_vector(size, mean):
    agree(nets.network(nets.line(size), size, nets.line(size), mean), data(size + 1, size))


@pytest.mark.parametrize(
    ("size", "first", "second"),
    [
        (9, nets.image(3), nets.image(3)),
        (16, nets.image(4), nets.image(4, 5)),
        (8, nets.line(8, stride=2), nets.line(4)),
        (8, nets.line(8, dilation=3), nets.line(8, circular=True)),
        (7, permuted(7, 1), nets.line(7)),
        (5, nets.line(5), np.repeat(np.arange(5), 2)[None]),
        (40, nets.line(40, width=37), nets.line(40)),
    ],
)
@pytest.mark.parametrize("mean", [False, True])
def test_taps_of_all_kinds(size, first, second, mean):
    agree(nets.network(first, size, second, mean), data(3, size))


@pytest.mark.parametrize("network", [nets.pooling(8, False), nets.pooling(8, True), nets.transformer(5, 2)])
def test_pools_and_attention(network):
    agree(network, data(9, 8 if "token" not in network.all_axes else 5))


def test_two_batches_of_other_sizes_than_a_block():
    network = nets.network(nets.line(6), 6, nets.line(6), mean=True)
    agree(network, data(3, 6), data(17, 6, seed=1))


def test_a_second_call_finds_nothing_of_the_first():
    limit = tp.derive(nets.network(nets.image(3), 9, nets.image(3), mean=True), tp.Kernels())
    X = data(9, 9)
    first = compiled(limit, X)
    limit.evaluate(1e3 * data(11, 9, seed=5), data(5, 9, seed=6))
    again = compiled(limit, X)
    np.testing.assert_array_equal(first.nngp, again.nngp)
    np.testing.assert_array_equal(first.ntk, again.ntk)


@pytest.mark.parametrize("mean", [False, True])
def test_an_input_with_itself_is_one_with_its_copy(mean):
    limit = tp.derive(nets.network(nets.line(7), 7, nets.line(7), mean), tp.Kernels())
    X = data(9, 7)
    alone, with_copy = compiled(limit, X), compiled(limit, X, X.copy())
    for one, two in zip(alone, with_copy, strict=True):
        upper = np.triu_indices(9, 1)
        np.testing.assert_array_equal(one[upper], two[upper])
        np.testing.assert_allclose(np.diag(one), np.diag(two), rtol=1e-15)
        np.testing.assert_array_equal(one, one.T)


def four_layers(x: Array, y: Array, size: int) -> tuple[float, float]:
    """NNGP and NTK of four convolutions of three taps and a readout of places, in 40 digits."""
    with mpmath.workdps(40):
        pairs = {"xx": (x, x), "xy": (x, y), "yy": (y, y)}
        K = {}
        for k, (a, b) in pairs.items():
            K[k] = [
                mpmath.fdot([mpmath.mpf(float(v)) for v in a[:, i]], [mpmath.mpf(float(v)) for v in b[:, i]])
                for i in range(size)
            ]

        def taps(t: list) -> list:
            return [mpmath.fsum(t[i + s] for s in (-1, 0, 1) if 0 <= i + s < size) for i in range(size)]

        Θ = [mpmath.mpf(0)] * size
        for layer in range(4):
            C = {k: taps(v) for k, v in K.items()}
            Θ = C["xy"] if layer == 0 else [a + b for a, b in zip(C["xy"], taps(Θ), strict=True)]
            flat = []
            for k in K:
                p, q = C[k[0] * 2], C[k[1] * 2]
                root = [mpmath.sqrt(max(a * b - c * c, mpmath.mpf(0))) for a, c, b in zip(p, C[k], q, strict=True)]
                turn = [mpmath.pi - mpmath.atan2(r, c) for r, c in zip(root, C[k], strict=True)]
                K[k] = [(r + t * c) / (2 * mpmath.pi) for r, t, c in zip(root, turn, C[k], strict=True)]
                flat = [t / (2 * mpmath.pi) for t in turn] if k == "xy" else flat
            Θ = [f * t for f, t in zip(flat, Θ, strict=True)]
        return float(mpmath.fsum(K["xy"])), float(mpmath.fsum(K["xy"]) + mpmath.fsum(Θ))


def flat(size: int) -> tp.Program:
    places = nets.line(size)

    @tp.network
    def net(
        ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap", "layer"], v: tp.Vector["at"]
    ):
        x = tp.relu(tp.sum(U * ξ.take(at=places, axes=("tap", "at")), over=("d", "tap")))
        for k in range(3):
            x = tp.relu(tp.sum(W.sel(layer=k) @ x.take(at=places, axes=("tap", "at")), over="tap"))
        return tp.sum(v * x, over="at")

    return net.bind(at=size, layer=3)


def neighbours(size: int) -> Array:
    """An input, and others by how close they are: the table of nearly singular pairs."""
    x, e = data(2, size, seed=3)
    one = x.copy()
    one[0, 2] += 1e-3
    near = [e, x + 1e-2 * e, one, x + 1e-5 * e, x + 1e-7 * e, x + 1e-10 * e, 1.001 * x, -x + 1e-4 * e, x.copy()]
    return np.stack([x, *near])


def test_nearly_singular_pairs_keep_ten_digits():
    X = neighbours(6)
    found = compiled(tp.derive(flat(6), tp.Kernels()), X)
    for j in range(1, len(X)):
        K, Θ = four_layers(X[0], X[j], 6)
        assert abs(found.nngp[0, j] / K - 1) < 1e-13
        assert abs(found.ntk[0, j] / Θ - 1) < 1e-10
    assert found.ntk[0, -1] == pytest.approx(found.ntk[0, 0], rel=1e-15)


def test_single_precision_keeps_five_digits_and_says_what_it_costs(monkeypatch):
    monkeypatch.setattr(evaluation, "_PAIRS", 0)
    monkeypatch.setattr(evaluation, "_SINGLE", 1)
    X = neighbours(6).astype(np.float32)
    found = compiled(tp.derive(flat(6), tp.Kernels()), X)
    assert found.nngp.dtype == found.ntk.dtype == np.float32
    largest = 0.0
    for j in range(1, len(X)):
        K, Θ = four_layers(X[0], X[j], 6)
        assert abs(found.nngp[0, j] / K - 1) < 2e-6
        assert abs(found.ntk[0, j] / Θ - 1) < 1e-5
        largest = max(largest, abs(found.nngp[0, j] - K), abs(found.ntk[0, j] - Θ))
    assert 0 < found.ntk_error < 20 * largest


def test_many_inputs_in_single_precision(monkeypatch):
    monkeypatch.setattr(evaluation, "_SINGLE", 1)
    limit, X = tp.derive(nets.network(nets.image(3), 9, nets.image(3), False), tp.Kernels()), data(40, 9)
    exact = limit.evaluate(X)
    found = compiled(limit, X.astype(np.float32))
    for one, two in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, two, rtol=5e-6)
    assert 0 < found.ntk_error < 1e-4


def test_what_a_law_cannot_hold_is_told_as_by_the_interpreter():
    limit = tp.derive(nets.network(nets.line(4), 4, nets.line(4), False), tp.Kernels())
    with pytest.raises(tp.EvaluationError, match="leave the range of doubles"):
        compiled(limit, 1e-90 * data(3, 4))


def test_taps_of_a_grid_need_no_table():
    limit = tp.derive(nets.network(nets.image(4), 16, nets.image(4), True), tp.Kernels())
    asked = request.request(limit.derivation, data(2, 16), None, {}, None)
    made = planning.plan_for(limit.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))
    code = lanes.Lanes(made.functions[0].passes(), 8, False)
    assert code.axes[16].border == (1, 1)
    assert not code.tables


def test_blocks_are_the_array():
    value = Labelled(data(11, 3), ("input 1", "d", "at"))
    found = Blocks.of(value, 8, np.float64)
    np.testing.assert_array_equal(found.plain.array, value.array)
    for part in (slice(8, 11), slice(3, 9), np.array([4, 0, 10])):
        some = found.some(part)
        np.testing.assert_array_equal(getattr(some, "plain", some).array, value.array[part])
    np.testing.assert_array_equal(Blocks.of(value, 16, np.float32).array, found.laid_out(16, np.float32).array)


def perceptron(φ, bias: float, norm: bool) -> tp.Program:
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], b: tp.Vector["layer"], v: tp.Vector):
        x = φ(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
        for k in range(3):
            y = x / tp.sqrt(tp.avg(x * x)) if norm else x
            x = φ(W.sel(layer=k) @ y + bias * b.sel(layer=k))
        return v * x

    return net.bind(layer=3)


@pytest.mark.parametrize(
    ("φ", "bias", "norm"),
    [
        (tp.relu, 0.3, False),
        (tp.relu, 0, True),
        (abs, 0, False),
        (lambda z: tp.leaky_relu(z, 0.2), 0.1, False),
        (tp.erf, 0.2, False),
    ],
)
def test_perceptrons_of_many_pairs_are_those_of_few(φ, bias, norm, monkeypatch):
    x, e = np.random.default_rng(0).standard_normal((2, 6))
    close = [x + 1e-2 * e, x + 1e-5 * e, x + 1e-7 * e, x + 1e-10 * e, x.copy()]
    turned = [1.001 * x, 2 * x, -x, -x + 1e-4 * e, -2 * x + 1e-9 * e, 0 * x + 1e-3]
    X = np.stack([x, e, *close, *turned])
    network = perceptron(φ, bias, norm)
    few = interpreted(network, X)
    monkeypatch.setattr(plan, "_MANY", 1)
    for one, two in zip(interpreted(network, X), few, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-11)
        np.testing.assert_array_equal(one, one.T)
    for one, two in zip(interpreted(network, X[:5], X[2:]), few, strict=True):  # the last row goes alone
        np.testing.assert_allclose(one, two[:5, 2:], rtol=1e-11)


@pytest.mark.long
def test_networks_of_eighty_layers_need_no_deep_recursion(monkeypatch):
    @tp.network
    def deep(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "layer"],
        b: tp.Vector["layer"],
        v: tp.Vector,
    ):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        for k in range(80):
            x = tp.relu(1.5 * (W.sel(layer=k) @ x) + 0.25 * b.sel(layer=k))
        return v * x

    X = np.random.default_rng(0).standard_normal((3, 4))
    few = interpreted(deep.bind(layer=80), X)
    monkeypatch.setattr(plan, "_MANY", 1)
    for one, two in zip(interpreted(deep.bind(layer=80), X), few, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-11)
