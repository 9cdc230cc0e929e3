"""Networks of the zoo: described, stored and read back, and their NNGP at finite width beside published recursions.

The mean over neurons of products of features needs few draws: readouts are set to 1, and the features of two inputs
multiplied.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import reference_kernels as R
from kernel_case_layers import neighbours

import tplimits as tp
from tplimits import zoo
from tplimits.errors import ProgramError
from tplimits.zoo.entry import ZooEntry

Array = np.ndarray


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_a_network_is_described(name):
    entry = zoo.get(name)
    assert entry.name == entry.program.name == name
    assert entry.program.is_network
    assert len(entry.summary) <= 120, "one line of a terminal"
    assert "→" in entry.limit
    assert set(entry.infinite) <= set(entry.program.all_axes)


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_a_network_survives_its_file_form(name):
    program = zoo.get(name).program
    assert tp.from_json(tp.to_json(program)) == program


def test_infinite_axes_are_a_part_of_a_docstring():
    text = "A line.\n\nLimit: a → b\n\nInfinite: head, expert\n\nSymbols: none\n\nReference: none"
    assert ZooEntry.described(zoo.get("mlp").program, text).infinite == ("head", "expert")
    assert zoo.get("many_heads").infinite == ("head",)


def test_near_names_of_networks():
    with pytest.raises(ProgramError, match="near names are transformer_block"):
        zoo.get("transformer_blok")


# -- published recursions ------------------------------------------------------------------------------


def decay() -> Array:
    at = np.arange(4) / 4
    return np.exp(-2 * (at[:, None] - at[None, :]) ** 2)


def stacked(x: R.Layer, layer: Callable[[R.Layer], R.Layer], depth: int) -> R.Layer:
    for _ in range(depth):
        x = layer(x)
    return x


def features(x: R.Layer) -> R.Layer:
    return R.activation(R.dense(x), "relu")


def two_convolutions(x: R.Layer, shape: tuple[int, ...]) -> R.Layer:
    return stacked(x, lambda y: R.activation(R.convolution(y, neighbours(shape)), "relu"), 2)


def transformer_block(x: R.Layer) -> R.Layer:
    x = R.dense(x)
    x = R.add(x, R.attention_inverse(R.layer_norm(x)))
    return R.pool(R.add(x, R.dense(R.activation(R.dense(R.layer_norm(x)), "gelu"))))


def graph(x: R.Layer) -> R.Layer:
    links = np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-1)
    return stacked(x, lambda y: features(R.mix(y, links / links.sum(axis=1, keepdims=True))), 2)


POSITIONS = R.Positions(decay(), decay())
#: the features that are read out, from the data
RECURSIONS: dict[str, Callable[[R.Layer], R.Layer]] = {
    "mlp": lambda x: R.scale(stacked(x, lambda y: R.activation(R.dense(y, 2**0.5, 0.25), "relu"), 3), 2**0.5),
    "residual_mlp": lambda x: stacked(R.dense(x), lambda y: R.add(y, R.dense(R.activation(R.dense(y), "erf"), 0.5)), 3),
    "gated_mlp": lambda x: R.product(R.dense(R.dense(x)), R.activation(R.dense(R.dense(x)), "sigmoid")),
    "skip_activation": lambda x: R.activation(R.dense(R.activation(R.dense(x), "u_plus_relu")), "erf"),
    "pre_ln_mlp": lambda x: stacked(R.dense(x), lambda y: R.add(y, R.dense(features(R.layer_norm(y)))), 2),
    "layer_norm_mlp": lambda x: R.affine_activation(R.layer_norm(R.dense(R.dense(x))), "relu"),
    "rms_norm_mlp": lambda x: R.layer_norm(features(x), centred=False, gain=True),
    "conv1d_pool": lambda x: R.pool(two_convolutions(x, (5,))),
    "conv2d_flatten": lambda x: two_convolutions(x, (3, 3)),
    "graph_convolution": graph,
    "tied_attention": lambda x: R.pool(R.attention_inverse(features(x))),
    "many_heads": lambda x: R.pool(R.attention_root(R.dense(x))),
    "residual_attention": lambda x: R.pool(R.residual_attention(features(x), decay(), 0.5)),
    "positional_encoding": lambda x: R.pool(R.attention_inverse(features(x), positions=POSITIONS)),
    "transformer_block": transformer_block,
}
DRAWS = 24


def data(program: tp.Program, rng: np.random.Generator) -> Array:
    """Two inputs of the shape that a network of the zoo takes."""
    axes = program[program.inputs[0]].axes[1:]
    return rng.standard_normal((2, 3, *(int(program.size(axis)) for axis in axes)))


@pytest.mark.sampling
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_features_at_finite_width(name):
    program, rng = zoo.get(name).program, np.random.default_rng(len(name))
    n = 96 if zoo.get(name).infinite else 256
    program = program.bind(**dict.fromkeys(zoo.get(name).infinite, 48))
    ξ = data(program, rng)
    layer = R.data(ξ.reshape(2, 3, -1).transpose(0, 2, 1))
    x = R.tied_rnn(ξ.transpose(0, 2, 1), "erf", 1, 1, 0.5) if name == "recurrent" else RECURSIONS[name](layer)
    flat = name == "conv2d_flatten"
    wanted = np.einsum("iaja->ij", x.K) / 9 if flat else np.moveaxis(x.K, 2, 1)[:, :, 0, 0]

    def draw(seed: int) -> Array:
        # at one seed all inputs meet the same parameters
        rng = np.random.default_rng(seed)
        v = rng.choice([-1.0, 1.0], (9, n)) if flat else np.ones(n)
        y = np.array([program.run(n=n, seed=seed, ξ=one, v=v)["return"] for one in ξ])
        y = y if y.ndim == 2 else y[:, 0]
        return y @ y.T / n

    draws = np.array([draw(seed) for seed in range(DRAWS)])
    size = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    error = draws.std(axis=0) / DRAWS**0.5
    assert (np.abs(draws.mean(axis=0) - wanted) <= 4 * error + 0.02 * size).all()
    assert (np.abs(draws.mean(axis=0) - 1.5 * wanted) > 4 * error + 0.02 * size).any()
