"""Neural Tangents on one row of benchmarks/kernels.py; runs in .venv-peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jaxlib
import kernel_clock as clock
import kernel_rows
import neural_tangents
import numpy
from neural_tangents import stax

#: nodes a dimension of its quadrature, as in its documentation
DEGREE = 25
ROOT = 2**0.5


def perceptron(row: kernel_rows.Row) -> list[Any]:
    """Hidden layers and a readout, all with biases."""
    made = stax.ElementwiseNumerical(jax.numpy.tanh, deg=DEGREE) if row.network == "tanh" else stax.Relu()
    layers = [stax.Dense(1, kernel_rows.WEIGHT, kernel_rows.BIAS), made] * row.depth
    return [*layers, stax.Dense(1, kernel_rows.WEIGHT, kernel_rows.BIAS)]


def conv() -> list[Any]:
    """A convolution of 3 × 3 taps and its function."""
    return [stax.Conv(1, (3, 3), padding="SAME", W_std=ROOT, b_std=None), stax.Relu()]


def flat(row: kernel_rows.Row) -> list[Any]:
    """Convolutions and a readout of every place."""
    return [*conv() * row.depth, stax.Flatten(), dense()]


def myrtle(row: kernel_rows.Row) -> list[Any]:
    """Two convolutions, two more each behind a pool of 2 × 2, a pool and the mean over what is left."""
    pool = [stax.AvgPool((2, 2), (2, 2))]
    return [*conv(), *conv(), *pool, *conv(), *pool, *conv(), *pool, stax.GlobalAvgPool(), dense()]


def transformer(row: kernel_rows.Row) -> list[Any]:
    """Two blocks of softmax attention at 1/n and a hidden layer, both residual with norms, and a mean of tokens."""
    attention = stax.GlobalSelfAttention(
        n_chan_out=1,
        n_chan_key=1,
        n_chan_val=1,
        n_heads=1,
        linear_scaling=True,
        W_key_std=1.0,
        W_value_std=1.0,
        W_query_std=1.0,
        W_out_std=1.0,
        b_std=None,
    )
    block = [
        residual(stax.LayerNorm(axis=-1), attention),
        residual(stax.LayerNorm(axis=-1), dense(), stax.Relu(), dense()),
    ]
    return [dense(), *block, *block, stax.GlobalAvgPool(), dense()]


def dense() -> Any:
    """A product with weights of variance 1/n."""
    return stax.Dense(1, W_std=1.0, b_std=None)


def residual(*layers: Any) -> Any:
    """x + f(x)."""
    return stax.serial(stax.FanOut(2), stax.parallel(stax.Identity(), stax.serial(*layers)), stax.FanInSum())


NETWORKS: dict[str, Callable[[kernel_rows.Row], list[Any]]] = {
    "perceptron": perceptron,
    "tanh": perceptron,
    "flat": flat,
    "myrtle": myrtle,
    "transformer": transformer,
}


def prepare(row: kernel_rows.Row, job: dict[str, Any]) -> clock.Call:
    """The kernel function, compiled or not, on the data of a row."""
    jax.config.update("jax_enable_x64", job["dtype"] == "float64")
    _, _, kernel = stax.serial(*NETWORKS[row.network](row))

    def found(x: Any) -> Any:
        return kernel(x, None, ("nngp", "ntk"))

    function = jax.jit(found) if job["jit"] else found
    X = jax.numpy.asarray(row.data.astype(job["dtype"]))
    return lambda: function(X)


if __name__ == "__main__":
    clock.run(prepare, {m.__name__: m.__version__ for m in (neural_tangents, jax, jaxlib, numpy)})
