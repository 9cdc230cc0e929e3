"""Neural Tangents on one job of benchmarks/kernels.py; runs in .venv-peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jaxlib
import kernel_clock as clock
import neural_tangents
import numpy
from neural_tangents import stax

#: nodes a dimension of its quadrature, as in its documentation
DEGREE = 25
LAYERS: dict[str, Callable[[], Any]] = {
    "relu": stax.Relu,
    "tanh": lambda: stax.ElementwiseNumerical(jax.numpy.tanh, deg=DEGREE),
}


def prepare(job: dict[str, Any]) -> Callable[[], tuple[Any, Any]]:
    """The compiled kernel function on the data of a job."""
    layers = []
    for _ in range(job["depth"]):
        layers += [stax.Dense(1, clock.WEIGHT, clock.BIAS), LAYERS[job["activation"]]()]
    _, _, kernel = stax.serial(*layers, stax.Dense(1, clock.WEIGHT, clock.BIAS))
    compiled = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))
    X = jax.numpy.asarray(clock.data(job["inputs"], job["features"]))
    return lambda: compiled(X)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    found = {m.__name__: m.__version__ for m in (neural_tangents, jax, jaxlib, numpy)}
    clock.run(prepare, found)
