"""Image networks that average over places: strides, windows, dilation, padding, rectangles, residual streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tplimits as tp
from tplimits import layers

Body = Callable[[Any, Any, Any, Any], Any]


def network(body: Body, places: int) -> tp.Program:
    """A readout of one number for each hidden neuron: `body` of data, weights of the first layer, taps, one matrix."""

    @tp.network
    def net(
        ξ: tp.Input["d", "p"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        M: tp.Matrix,
        v: tp.Vector,
    ):
        return v * body(ξ, U, W, M)

    return net.bind(p=places, layer=3)


def conv(x: Any, weights: Any, to: str = "", **given: Any) -> Any:
    """A convolution with 3×3 taps over one axis that holds an image, named in `given` with its shape."""
    options = {k: given.pop(k) for k in ("stride", "padding", "dilation") if k in given}
    return layers.conv2d(x, weights, over=given, taps={"tap": (3, 3)}, **options, **({"to": to} if to else {}))


def pool(x: Any, to: str, window: int = 2, stride: int | None = None, padding: str = "VALID", **given: Any) -> Any:
    """An average over windows."""
    return layers.avg_pool(x, over=given, window=window, stride=stride, padding=padding, to=to)


def _mean(x: Any, over: str) -> Any:
    return layers.global_pool(x, over=over)


def networks() -> dict[str, tuple[tp.Program, int]]:
    """By name, with the number of places of its data."""
    r, S, Q = tp.relu, (6, 6), (3, 3)

    def first(ξ: Any, U: Any, **options: Any) -> Any:
        return r(conv(ξ, U, p=S, **options))

    bodies: dict[str, Body] = {
        "no pool": lambda ξ, U, W, M: _mean(r(conv(first(ξ, U), W.sel(layer=0), p=S)), "p"),
        "pool": lambda ξ, U, W, M: _mean(r(conv(pool(first(ξ, U), "q", p=S), W.sel(layer=0), q=Q)), "q"),
        "pool last": lambda ξ, U, W, M: _mean(pool(r(conv(first(ξ, U), W.sel(layer=0), p=S)), "q", p=S), "q"),
        "overlapping": lambda ξ, U, W, M: _mean(
            r(conv(pool(first(ξ, U), "q", window=3, stride=1, p=S), W.sel(layer=0), q=(4, 4))), "q"
        ),
        "pool at borders": lambda ξ, U, W, M: _mean(
            r(conv(pool(first(ξ, U), "q", window=3, stride=2, padding="SAME", p=S), W.sel(layer=0), q=Q)), "q"
        ),
        "dilated": lambda ξ, U, W, M: _mean(r(conv(pool(first(ξ, U), "q", p=S), W.sel(layer=0), q=Q, dilation=2)), "q"),
        "stride": lambda ξ, U, W, M: _mean(r(conv(first(ξ, U), W.sel(layer=0), "q", p=S, stride=2)), "q"),
        "stride, pool": lambda ξ, U, W, M: _mean(
            r(
                conv(
                    pool(r(conv(first(ξ, U), W.sel(layer=1), "q", p=S, stride=2)), "s", stride=1, q=Q),
                    W.sel(layer=0),
                    s=(2, 2),
                )
            ),
            "s",
        ),
        "valid, pool": lambda ξ, U, W, M: _mean(
            r(
                conv(
                    pool(r(conv(first(ξ, U), W.sel(layer=1), "q", p=S, padding="VALID")), "s", q=(4, 4)),
                    W.sel(layer=0),
                    s=(2, 2),
                )
            ),
            "s",
        ),
        "residual": lambda ξ, U, W, M: (lambda x: _mean(x + r(conv(x, W.sel(layer=0), q=Q)), "q"))(
            pool(first(ξ, U), "q", p=S)
        ),
        "residual, stride": lambda ξ, U, W, M: (
            lambda x: _mean(r(conv(x + r(conv(x, W.sel(layer=0), p=S)), W.sel(layer=1), "q", p=S, stride=2)), "q")
        )(first(ξ, U)),
        "dense": lambda ξ, U, W, M: _mean(r(M @ pool(first(ξ, U), "q", p=S)), "q"),
        "head": lambda ξ, U, W, M: r(M @ _mean(r(conv(first(ξ, U), W.sel(layer=0), p=S)), "p")),
        "absolute": lambda ξ, U, W, M: _mean(abs(conv(pool(abs(conv(ξ, U, p=S)), "q", p=S), W.sel(layer=0), q=Q)), "q"),
        "smooth": lambda ξ, U, W, M: _mean(
            tp.erf(conv(pool(tp.erf(conv(ξ, U, p=S)), "q", p=S), W.sel(layer=0), q=Q)), "q"
        ),
        "norm": lambda ξ, U, W, M: _mean(
            r(conv(layers.layer_norm(pool(first(ξ, U), "q", p=S)), W.sel(layer=0), q=Q)), "q"
        ),
        "circular": lambda ξ, U, W, M: _mean(
            r(conv(pool(r(conv(ξ, U, p=S, padding="CIRCULAR")), "q", p=S), W.sel(layer=0), q=Q, padding="CIRCULAR")),
            "q",
        ),
        "up": lambda ξ, U, W, M: (
            lambda x: _mean(
                x + r(conv(layers.upsample(pool(x, "q", p=S), over={"q": Q}, factor=2, to="p"), W.sel(layer=0), p=S)),
                "p",
            )
        )(first(ξ, U)),
    }
    found = {name: (network(body, 36), 36) for name, body in bodies.items()}

    def rectangle(ξ: Any, U: Any, W: Any, M: Any) -> Any:
        x = pool(r(conv(ξ, U, p=(4, 6))), "q", p=(4, 6))
        return _mean(r(conv(x, W.sel(layer=0), q=(2, 3))), "q")

    def deep(ξ: Any, U: Any, W: Any, M: Any) -> Any:
        x = pool(r(conv(ξ, U, p=(8, 8))), "q", p=(8, 8))
        x = pool(r(conv(x, W.sel(layer=0), q=(4, 4))), "s", q=(4, 4))
        return _mean(r(conv(x, W.sel(layer=1), s=(2, 2))), "s")

    found["rectangle"] = network(rectangle, 24), 24
    found["two pools"] = network(deep, 64), 64
    found["every place"] = _every_place(), 36
    found["as many features as places"] = _as_many(), 4
    return found


def _every_place() -> tp.Program:
    """A pool and a readout of every place that is left."""

    @tp.network
    def net(ξ: tp.Input["d", "p"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["q"]):
        x = pool(tp.relu(conv(ξ, U, p=(6, 6))), "q", p=(6, 6))
        return tp.sum(v * tp.relu(conv(x, W, q=(3, 3))), over="q")

    return net.bind(p=36)


def _as_many() -> tp.Program:
    """Four places of four features, smooth, with a pool and a readout of what is left: sizes tell axes not apart."""

    @tp.network
    def net(ξ: tp.Input["d", "p"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["q"]):
        x = tp.erf(layers.conv1d(ξ, U, over={"p": 4}, taps={"tap": 3}))
        x = layers.avg_pool(x, over={"p": 4}, window=2, to="q")
        return tp.sum(v * tp.erf(layers.conv1d(x, W, over={"q": 2}, taps={"tap": 3})), over="q")

    return net.bind(p=4)


def data(many: int, places: int, seed: int = 0) -> np.ndarray:
    """Images of two channels; of four places, four."""
    return np.random.default_rng([seed, places]).standard_normal((many, 4 if places == 4 else 2, places))
