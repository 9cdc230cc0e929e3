"""tplimits on one job of benchmarks/kernels.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernel_clock as clock
import record

import tplimits as tp
from tplimits.numbers.moments.hermite import forget_rows

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": lambda x: tp.relu(x), "tanh": lambda x: tp.tanh(x)}


def perceptron(depth: int, activation: str) -> tp.Program:
    """Hidden layers and a readout, all with biases."""
    φ, σw, σb = ACTIVATIONS[activation], clock.WEIGHT, clock.BIAS

    @tp.network
    def mlp(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "layer"],
        b: tp.Vector["depth"],
        v: tp.Vector,
        c: tp.Scalar,
    ):
        x = φ(σw * tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")) + σb * b.sel(depth=0))
        for i in range(depth - 1):
            x = φ(σw * (W.sel(layer=i) @ x) + σb * b.sel(depth=i + 1))
        return tp.readout(σw * v * x) + σb * c

    return mlp.bind(layer=max(depth - 1, 1), depth=depth)


def prepare(job: dict[str, Any]) -> Callable[[], tuple[Any, Any]]:
    """Derive the kernels; the first evaluation compiles them."""
    limit = tp.derive(perceptron(job["depth"], job["activation"]), tp.Kernels())
    X = clock.data(job["inputs"], job["features"])

    def call() -> tuple[Any, Any]:
        forget_rows()  # a later call has new data
        nngp, ntk = limit.evaluate(X)
        return nngp, ntk

    return call


if __name__ == "__main__":
    clock.run(prepare, record.versions())
