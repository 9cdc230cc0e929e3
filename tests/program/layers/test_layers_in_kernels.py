"""Kernels of networks written with layers beside those of the same networks written by hand."""

import numpy as np
import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.regimes.kernels.numbers import evaluation

L = tp.layers
LINE = np.array([[-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [1, 2, 3, 4, -1]])
_PADDED = np.pad(np.arange(9).reshape(3, 3), 1, constant_values=-1)
SQUARE = np.array([_PADDED[i : i + 3, j : j + 3].ravel() for i in range(3) for j in range(3)])


@tp.network
def conv1d_pool(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
    seen = tp.sum(U * ξ.take(at=LINE, axes=("tap", "at")), over=("d", "tap"))
    x = tp.relu(seen / tp.sqrt(3 * tp.size("d")))
    y = tp.relu(tp.sum(W @ x.take(at=LINE, axes=("tap", "at")), over="tap") / tp.sqrt(3))
    return v * tp.mean(y, over="at")


@tp.network
def conv2d_flatten(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
    seen = tp.sum(U * ξ.take(at=SQUARE, axes=("tap", "at")), over=("d", "tap"))
    x = tp.relu(seen / (3 * tp.sqrt(tp.size("d"))))
    y = tp.relu(tp.sum(W @ x.take(at=SQUARE, axes=("tap", "at")), over="tap") / 3)
    return tp.sum(v * y, over="at") / tp.sqrt(tp.size("at"))


@tp.network
def two_axes(
    ξ: tp.Input["d", "row", "column"],
    U: tp.Vector["d", "down", "across"],
    W: tp.Matrix["n", "n", "down", "across"],
    v: tp.Vector["row", "column"],
):
    over, taps = {"row": 3, "column": 3}, {"down": 3, "across": 3}
    x = tp.relu(L.conv2d(ξ, U, over=over, taps=taps) / (3 * tp.sqrt(tp.size("d"))))
    y = tp.relu(L.conv2d(x, W, over=("row", "column"), taps=("down", "across")) / 3)
    return tp.sum(v * y, over=("row", "column")) / 3


def data(*shape):
    return np.random.default_rng(0).standard_normal((3, 2, *shape))


def kernels(net, X):
    return tp.derive(net, tp.Kernels()).evaluate(X)


@pytest.mark.parametrize("hand", [conv1d_pool, conv2d_flatten], ids=lambda p: p.name)
def test_networks_of_the_zoo_are_those_written_by_hand(hand):
    with_layers = zoo.get(hand.name).program
    assert repr(with_layers) == repr(hand)
    assert with_layers.instructions == hand.instructions
    X = data(int(hand.size("at")))
    got, wanted = kernels(with_layers, X), kernels(hand, X)
    np.testing.assert_array_equal(got.nngp, wanted.nngp)
    np.testing.assert_array_equal(got.ntk, wanted.ntk)


def test_images_on_two_axes_have_the_kernels_of_images_on_one():
    X = data(3, 3)
    got, wanted = kernels(two_axes, X), kernels(conv2d_flatten, X.reshape(3, 2, 9))
    np.testing.assert_allclose(got.nngp, wanted.nngp, rtol=1e-12)
    np.testing.assert_allclose(got.ntk, wanted.ntk, rtol=1e-12)


def test_images_on_two_axes_need_no_extended_precision(monkeypatch):
    """Every axis is read through one lookup by both inputs: gaps are kept, and nothing is done twice."""
    monkeypatch.setattr(evaluation, "wide", None)
    X = data(3, 3)
    assert np.isfinite(kernels(two_axes, X).ntk).all()


def strided(padding, dilation):
    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 8}, taps={"tap": 3}, stride=2, to="half"))
        y = tp.relu(L.conv1d(x, W, over="half", taps="tap", padding=padding, dilation=dilation, to="end"))
        return v * L.global_pool(y, over="end")

    return net


@pytest.mark.long
@pytest.mark.sampling
def test_strides_and_dilation_at_finite_width():
    limit, twin = (tp.derive(strided(p, d), tp.Kernels()) for p, d in (("CIRCULAR", 2), ("SAME", 1)))
    X = data(8)[:2]
    networks = {"X1": X, "widths": (32, 64, 128), "draws": (800, 600, 400), "seed": 0}
    assert tp.check(limit, **networks).accepted
    wrong = twin.evaluate(X)
    assert not tp.check(limit, claims={"nngp": wrong.nngp, "ntk": wrong.ntk}, **networks).accepted


def unet(skip):
    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 4}, taps={"tap": 3}) / tp.sqrt(3 * tp.size("d")))
        y = tp.relu(L.conv1d(L.avg_pool(x, over="at", window=2), W, over="at_2", taps="tap") / tp.sqrt(3))
        y = L.upsample(y, over="at_2", factor=2)
        return tp.sum(v * (x + y if skip else y), over="at") / 2

    return net


@pytest.mark.long
@pytest.mark.sampling
def test_a_pool_and_its_inverse_at_finite_width():
    limit, twin = (tp.derive(unet(skip), tp.Kernels()) for skip in (True, False))
    X = data(4)[:2]
    networks = {"X1": X, "widths": (32, 64, 128), "draws": (800, 600, 400), "seed": 0}
    assert tp.check(limit, **networks).accepted
    wrong = twin.evaluate(X)
    assert not tp.check(limit, claims={"nngp": wrong.nngp, "ntk": wrong.ntk}, **networks).accepted


def test_a_transformer_of_layers_has_the_kernels_of_the_zoo():
    @tp.network
    def block(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        WQ: tp.Matrix,
        WV: tp.Matrix,
        WO: tp.Matrix,
        W: tp.Matrix,
        V: tp.Matrix,
        v: tp.Vector,
    ):
        x = L.linear(ξ, U) / tp.sqrt(tp.size("d"))
        y = L.layer_norm(x)
        q = L.linear(y, WQ)
        x = x + L.linear(L.attention(q, q, L.linear(y, WV)), WO)
        x = x + L.linear(tp.gelu(L.linear(L.layer_norm(x), W)), V)
        return v * L.global_pool(x, over="token")

    got, wanted = kernels(block.bind(token=4), data(4)), kernels(zoo.get("transformer_block").program, data(4))
    np.testing.assert_allclose(got.nngp, wanted.nngp, rtol=1e-12)
    np.testing.assert_allclose(got.ntk, wanted.ntk, rtol=1e-12)
