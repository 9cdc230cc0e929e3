"""Networks whose layers read through index arrays: convolutions with strides, dilation, borders, pools, up-sampling."""

from __future__ import annotations

import numpy as np

import tplimits as tp


def line(size: int, width: int = 3, stride: int = 1, dilation: int = 1, circular: bool = False) -> np.ndarray:
    """The place that each tap (rows) reads at each place of a line (columns); −1 is outside."""
    places = np.arange(0, size, stride) + dilation * (np.arange(width)[:, None] - width // 2)
    return places % size if circular else np.where((places >= 0) & (places < size), places, -1)


def image(size: int, width: int = 3) -> np.ndarray:
    """Taps of a square image, row by row."""
    one = line(size, width)
    both = one[:, None, :, None] * size + one[None, :, None, :]
    inside = (one >= 0)[:, None, :, None] & (one >= 0)[None, :, None, :]
    return np.where(inside, both, -1).reshape(width * width, size * size)


def halves(size: int) -> np.ndarray:
    """Pairs of neighbours, for a pool."""
    return np.arange(size).reshape(-1, 2).T


def network(places: np.ndarray, size: int, second: np.ndarray, mean: bool) -> tp.Program:
    """A convolution with the taps `places`, one with `second`, and a readout of places or of their mean."""
    many, last = places.shape[1], second.shape[1]

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "other"], v: tp.Vector["end"]):
        x = tp.relu(tp.sum(U * ξ.take(at=places, axes=("tap", "to")), over=("d", "tap")))
        y = tp.relu(tp.sum(W @ x.take(to=second, axes=("other", "end")), over="other"))
        return tp.sum(v * y, over="end") / last

    @tp.network
    def pooled(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "other"], v: tp.Vector):
        x = tp.relu(tp.sum(U * ξ.take(at=places, axes=("tap", "to")), over=("d", "tap")))
        y = tp.relu(tp.sum(W @ x.take(to=second, axes=("other", "end")), over="other"))
        return v * tp.mean(y, over="end")

    return (pooled if mean else net).bind(at=size, to=many)


def pooling(size: int, mean: bool) -> tp.Program:
    """A convolution, the mean of neighbours, a convolution."""
    taps, pool, rest = line(size), halves(size), line(size // 2)

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["half"]):
        x = tp.relu(tp.sum(U * ξ.take(at=taps, axes=("tap", "at")), over=("d", "tap")))
        x = tp.mean(x.take(at=pool, axes=("member", "half")), over="member")
        y = tp.relu(tp.sum(W @ x.take(half=rest, axes=("tap", "half")), over="tap"))
        return tp.sum(v * y, over="half")

    @tp.network
    def averaged(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
        x = tp.relu(tp.sum(U * ξ.take(at=taps, axes=("tap", "at")), over=("d", "tap")))
        x = tp.mean(x.take(at=pool, axes=("member", "half")), over="member")
        y = tp.relu(tp.sum(W @ x.take(half=rest, axes=("tap", "half")), over="tap"))
        return v * tp.mean(y, over="half")

    return (averaged if mean else net).bind(at=size)


def grouped(size: int, tied: bool) -> tp.Program:
    """Two groups of neurons, each with a convolution of its own, or with that of the first."""
    taps = line(size)

    @tp.network
    def net(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap", "group"],
        W: tp.Matrix["n", "n", "tap", "group"],
        v: tp.Vector["at"],
    ):
        x = tp.relu(tp.sum(U * ξ.take(at=taps, axes=("tap", "at")), over=("d", "tap")))
        matrix = W.sel(group=0) if tied else W
        y = tp.relu(tp.sum(matrix @ x.take(at=taps, axes=("tap", "at")), over="tap"))
        return tp.sum(v * tp.sum(y, over="group"), over="at")

    return net.bind(at=size, group=2)


def transformer(tokens: int, blocks: int = 1) -> tp.Program:
    """Softmax attention at 1/n with a residual branch and a layer without norm, read at every token."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "block"],
        V: tp.Matrix["n", "n", "block"],
        W: tp.Matrix["n", "n", "block"],
        v: tp.Vector["token"],
    ):
        x = tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
        for b in range(blocks):
            q = Q.sel(block=b) @ x
            A = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
            x = x + tp.sum(A * (V.sel(block=b) @ x).rename(token="key"), over="key")
            x = x + tp.relu(W.sel(block=b) @ x)
        return tp.sum(v * x, over="token")

    return net.bind(token=tokens, block=blocks)
