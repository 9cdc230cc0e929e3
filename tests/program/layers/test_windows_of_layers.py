"""Convolutions, pools and up-sampling at width 64, against padded arrays and strided views."""

import numpy as np
import pytest

import tplimits as tp

L = tp.layers
N = 64


def bordered(x, direction, window, stride, padding, dilation):
    """An array with what padding puts around it along one direction."""
    if padding == "VALID":
        return x
    size, span = x.shape[direction], (window - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    around = [(0, 0)] * x.ndim
    around[direction] = (total // 2, total - total // 2)
    return np.pad(x, around, mode="wrap" if padding == "CIRCULAR" else "constant")


def windows(x, sizes, strides, padding, dilations):
    """All windows over the first directions of x: (places…, taps…, rest)."""
    rank = len(sizes)
    for i, how in enumerate(zip(sizes, strides, [padding] * rank, dilations, strict=True)):
        x = bordered(x, i, *how)
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(rank)))
    seen = np.moveaxis(seen, range(-rank, 0), range(rank, 2 * rank))
    return seen[tuple(slice(None, None, s) for s in (*strides, *dilations))]


def returned(ran, many):
    return [ran[f"return[{i}]"] for i in range(many)]


SPACES = [(p, s, d) for p in ("SAME", "VALID", "CIRCULAR") for s, d in ((1, 1), (2, 1), (1, 2), (3, 2))]


@pytest.mark.parametrize(("padding", "stride", "dilation"), SPACES)
@pytest.mark.parametrize(("size", "width"), [(7, 3), (8, 2), (9, 4)])
def test_conv1d(padding, stride, dilation, size, width):
    @tp.program
    def net(W: tp.Matrix["n", "n", "tap"], x: tp.Vector["at"]):
        how = {"stride": stride, "padding": padding, "dilation": dilation}
        return L.conv1d(x, W, over={"at": size}, taps={"tap": width}, **how, to="out")

    rng = np.random.default_rng(size)
    W, x = rng.standard_normal((width, N, N)), rng.standard_normal((size, N))
    wanted = np.einsum("itb,tab->ia", windows(x, (width,), (stride,), padding, (dilation,)), W)
    np.testing.assert_allclose(net.run(n=N, W=W, x=x)["return"], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), ((1, 2), (2, 1))])
def test_conv2d_on_two_axes_and_on_one(padding, stride, dilation):
    how = {"stride": stride, "padding": padding, "dilation": dilation}

    @tp.program
    def two(W: tp.Matrix["n", "n", "down", "across"], x: tp.Vector["row", "column"]):
        over, taps = {"row": 5, "column": 6}, {"down": 3, "across": 2}
        return L.conv2d(x, W, over=over, taps=taps, **how, to=("i", "j"))

    @tp.program
    def one(W: tp.Matrix["n", "n", "tap"], x: tp.Vector["at"]):
        return L.conv2d(x, W, over={"at": (5, 6)}, taps={"tap": (3, 2)}, **how, to="out")

    rng = np.random.default_rng(0)
    W, x = rng.standard_normal((3, 2, N, N)), rng.standard_normal((5, 6, N))
    strides, dilations = (v if isinstance(v, tuple) else (v, v) for v in (stride, dilation))
    wanted = np.einsum("ijtsb,tsab->ija", windows(x, (3, 2), strides, padding, dilations), W)
    np.testing.assert_allclose(two.run(n=N, W=W, x=x)["return"], wanted, rtol=1e-12, atol=1e-12)
    flat = one.run(n=N, W=W.reshape(6, N, N), x=x.reshape(30, N))["return"]
    np.testing.assert_allclose(flat, wanted.reshape(-1, N), rtol=1e-12, atol=1e-12)


def test_a_convolution_of_data_sums_channels():
    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], b: tp.Vector):
        return L.conv1d(ξ, U, over={"at": 6}, taps={"tap": 3}) + b

    rng = np.random.default_rng(0)
    ξ, U, b = rng.standard_normal((4, 6)), rng.standard_normal((4, 3, N)), rng.standard_normal(N)
    wanted = np.einsum("itd,dta->ia", windows(ξ.T, (3,), (1,), "SAME", (1,)), U) + b
    np.testing.assert_allclose(net.run(n=N, ξ=ξ, U=U, b=b)["return"], wanted, rtol=1e-12, atol=1e-12)


def test_groups_are_an_axis_of_matrices_and_vectors():
    @tp.program
    def net(W: tp.Matrix["n", "n", "tap", "group"], x: tp.Vector["group", "at"]):
        return L.conv1d(x, W, over={"at": 5}, taps={"tap": 3})

    rng = np.random.default_rng(0)
    W, x = rng.standard_normal((3, 2, N, N)), rng.standard_normal((2, 5, N))
    seen = [windows(one, (3,), (1,), "SAME", (1,)) for one in x]
    wanted = np.array([np.einsum("itb,tab->ia", s, W[:, g]) for g, s in enumerate(seen)])
    np.testing.assert_allclose(net.run(n=N, W=W, x=x)["return"], wanted, rtol=1e-12, atol=1e-12)


POOLS = [(2, None, "VALID"), (3, 2, "SAME"), (3, 1, "CIRCULAR"), ((2, 3), (1, 2), "VALID")]


@pytest.mark.parametrize(("window", "stride", "padding"), POOLS)
def test_pools(window, stride, padding):
    @tp.program
    def two(x: tp.Vector["row", "column"]):
        how = {"window": window, "stride": stride, "padding": padding, "to": ("i", "j")}
        over = {"row": 6, "column": 7}
        return L.sum_pool(x, over=over, **how), L.avg_pool(x, over=over, **how)

    @tp.program
    def one(x: tp.Vector["at"]):
        return L.avg_pool(x, over={"at": (6, 7)}, window=window, stride=stride, padding=padding, to="out")

    x = np.random.default_rng(0).standard_normal((6, 7, N))
    sizes, strides = ((v, v) if isinstance(v, int) else v for v in (window, stride or window))
    seen = windows(x, sizes, strides, padding, (1, 1))
    total, mean = returned(two.run(n=N, x=x), 2)
    np.testing.assert_allclose(total, seen.sum(axis=(2, 3)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mean, seen.mean(axis=(2, 3)), rtol=1e-12, atol=1e-12)
    flat = one.run(n=N, x=x.reshape(42, N))["return"]
    np.testing.assert_allclose(flat, seen.mean(axis=(2, 3)).reshape(-1, N), rtol=1e-12, atol=1e-12)


def test_upsampling_and_global_pooling():
    @tp.program
    def net(x: tp.Vector["at"], y: tp.Vector["row", "column"]):
        fine = L.upsample(x, over={"at": (2, 3)}, factor=(2, 3))
        both = L.upsample(y, over={"row": 2, "column": 3}, factor=2)
        return fine, both, L.global_pool(y, over=("row", "column"))

    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, N))
    fine, both, mean = returned(net.run(n=N, x=x.reshape(6, N), y=x), 3)
    np.testing.assert_array_equal(fine, x.repeat(2, axis=0).repeat(3, axis=1).reshape(-1, N))
    np.testing.assert_array_equal(both, x.repeat(2, axis=0).repeat(2, axis=1))
    np.testing.assert_allclose(mean, x.mean(axis=(0, 1)), rtol=1e-12)


def test_axes_are_called_by_their_size_and_come_back():
    @tp.network
    def unet(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
        x = tp.relu(L.conv1d(ξ, U, over={"at": 8}, taps={"tap": 3}))
        coarse = L.avg_pool(x, over="at", window=2)
        coarse = tp.relu(L.conv1d(coarse, W, over="at_4", taps="tap"))
        return tp.sum(v * (x + L.upsample(coarse, over="at_4", factor=2)), over="at")

    assert unet.size("at") == 8 and unet.size("at_4") == 4
    rng = np.random.default_rng(0)
    ξ, U, W, v = (rng.standard_normal(s) for s in ((2, 8), (2, 3, N), (3, N, N), (8, N)))
    x = np.maximum(np.einsum("itd,dta->ia", windows(ξ.T, (3,), (1,), "SAME", (1,)), U), 0)
    y = np.maximum(np.einsum("itb,tab->ia", windows(x.reshape(4, 2, N).mean(axis=1), (3,), (1,), "SAME", (1,)), W), 0)
    wanted = (v * (x + y.repeat(2, axis=0))).sum(axis=0)
    np.testing.assert_allclose(unet.run(n=N, ξ=ξ, U=U, W=W, v=v)["return"], wanted, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("coarse", [(4,), (4, 3)])
@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_transposed_convolutions_are_transposed(coarse, padding, stride, dilation):
    """⟨conv y, x⟩ = ⟨y, conv_transpose x⟩ for weights of one neuron; along one direction and along two."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "to": "out"}
    rank, span = len(coarse), 2 * dilation + 1
    fine = tuple((c - 1) * stride + span if padding == "VALID" else c * stride for c in coarse)
    forth, back = (getattr(L, f"{kind}{rank}d") for kind in ("conv", "conv_transpose"))

    @tp.program
    def down(W: tp.Matrix["n", "n", "tap"], y: tp.Vector["at"]):
        return forth(y, W, over={"at": fine}, taps={"tap": (3,) * rank}, **how)

    @tp.program
    def up(W: tp.Matrix["n", "n", "tap"], x: tp.Vector["at"]):
        return back(x, W, over={"at": coarse}, taps={"tap": (3,) * rank}, **how)

    rng = np.random.default_rng(0)
    W = rng.standard_normal((3**rank, 1, 1))
    x, y = rng.standard_normal((np.prod(coarse), 1)), rng.standard_normal((np.prod(fine), 1))
    small, large = down.run(n=1, W=W, y=y)["return"], up.run(n=1, W=W, x=x)["return"]
    assert large.size == y.size
    np.testing.assert_allclose(np.vdot(small, x), np.vdot(y, large), rtol=1e-12)
