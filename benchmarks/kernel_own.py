"""tplimits on one row of benchmarks/kernels.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernel_clock as clock
import kernel_rows
import numba  # noqa: F401  (what a first call would import)
import numpy as np
import record
import sympy.tensor.tensor  # noqa: F401  (SymPy loads it when it first adds)

import tplimits as tp
from tplimits import layers
from tplimits.numbers.moments.hermite import forget_rows
from tplimits.regimes.kernels.numbers import evaluation  # noqa: F401
from tplimits.regimes.kernels.numbers.passes import plan

C = tp.sqrt(2) / 3  # √(2/9): a weight has the variance 2 over nine taps


def perceptron(row: kernel_rows.Row) -> tp.Program:
    """Hidden layers and a readout, all with biases."""
    φ, depth = tp.tanh if row.network == "tanh" else tp.relu, row.depth
    σw, σb = kernel_rows.WEIGHT, kernel_rows.BIAS

    @tp.network
    def mlp(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "layer"],
        b: tp.Vector["depth"],
        v: tp.Vector,
        c: tp.Scalar,
    ):
        x = φ(σw * layers.linear(ξ, U) / tp.sqrt(tp.size("d")) + σb * b.sel(depth=0))
        for i in range(depth - 1):
            x = φ(σw * layers.linear(x, W.sel(layer=i)) + σb * b.sel(depth=i + 1))
        return tp.readout(σw * v * x) + σb * c

    return mlp.bind(layer=max(depth - 1, 1), depth=depth)


def flat(row: kernel_rows.Row) -> tp.Program:
    """Convolutions and a readout of every place."""
    over, taps = {"at": (row.size, row.size)}, {"tap": (3, 3)}

    @tp.network
    def net(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        v: tp.Vector["at"],
    ):
        x = tp.relu(C * layers.conv2d(ξ, U, over=over, taps=taps) / tp.sqrt(tp.size("d")))
        for k in range(row.depth - 1):
            x = tp.relu(C * layers.conv2d(x, W.sel(layer=k), over=over, taps=taps))
        return tp.sum(v * x, over="at") / tp.sqrt(tp.size("at"))

    return net.bind(at=row.size**2, layer=max(row.depth - 1, 1))


def myrtle(row: kernel_rows.Row) -> tp.Program:
    """Two convolutions, two more each behind a pool of 2 × 2, a pool and the mean over what is left."""
    sides, taps = [row.size >> k for k in range(4)], {"tap": (3, 3)}

    @tp.network
    def net(ξ: tp.Input["d", "p0"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap", "layer"], v: tp.Vector):
        grids = [{f"p{k}": (side, side)} for k, side in enumerate(sides)]
        x = tp.relu(C * layers.conv2d(ξ, U, over=grids[0], taps=taps) / tp.sqrt(tp.size("d")))
        for k in range(3):
            x = tp.relu(C * layers.conv2d(x, W.sel(layer=k), over=grids[k], taps=taps))
            x = layers.avg_pool(x, over=grids[k], window=2, to=f"p{k + 1}")
        return v * layers.global_pool(x, over="p3")

    return net.bind(p0=row.size**2, layer=3)


def transformer(row: kernel_rows.Row) -> tp.Program:
    """Two blocks of softmax attention at 1/n and a hidden layer, both residual with norms, and a mean of tokens."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "block"],
        V: tp.Matrix["n", "n", "block"],
        P: tp.Matrix["n", "n", "block"],
        W: tp.Matrix["n", "n", "block"],
        M: tp.Matrix["n", "n", "block"],
        v: tp.Vector,
    ):
        x = layers.linear(ξ, U) / tp.sqrt(tp.size("d"))
        for b in range(2):
            y = layers.layer_norm(x)
            q = layers.linear(y, Q.sel(block=b))
            x = x + layers.linear(layers.attention(q, q, layers.linear(y, V.sel(block=b))), P.sel(block=b))
            x = x + layers.linear(tp.relu(layers.linear(layers.layer_norm(x), W.sel(block=b))), M.sel(block=b))
        return v * layers.global_pool(x, over="token")

    return net.bind(token=row.size, block=2)


NETWORKS: dict[str, Callable[[kernel_rows.Row], tp.Program]] = {
    "perceptron": perceptron,
    "tanh": perceptron,
    "flat": flat,
    "myrtle": myrtle,
    "transformer": transformer,
}


def prepare(row: kernel_rows.Row, job: dict[str, Any]) -> clock.Call:
    """Derive the kernels; a job that is to `compile` does so whatever the work is."""
    if job["compile"]:
        plan._WORTHWHILE, plan._MANY = 0.0, 0
    limit = tp.derive(NETWORKS[row.network](row), tp.Kernels())
    X = row.data.astype(job["dtype"])
    if X.ndim > 2:
        X = np.moveaxis(X, -1, 1).reshape(len(X), row.channels, -1)

    def call() -> tuple[Any, Any]:
        forget_rows()  # a later call has new data
        nngp, ntk = limit.evaluate(X, progress=False)
        return nngp, ntk

    return call


if __name__ == "__main__":
    clock.run(prepare, record.versions())
