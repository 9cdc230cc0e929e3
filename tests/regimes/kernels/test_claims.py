"""Kernels of networks at finite widths: `check` accepts what is derived and rejects the mistake somebody would make.

A twin is the kernel of that mistake: of another program, of fewer parameters, or of a recursion with one term wrong.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
import reference_kernels as R
from kernel_cases import dyadic

import tplimits as tp
from tplimits import zoo

Array = np.ndarray
Twin = Callable[[tp.KernelLimit, Array], Mapping[str, Array]]

#: one check rejects true kernels with this probability: 2 % for all of them together.  Seeds are the CRC of the
#: network's name, fixed before anything was run.
LEVEL = 1e-3


@dataclass(frozen=True)
class Judged:
    """A network with data and with a mistake that its kernels are distinguished from."""

    network: tp.Program
    #: the data of two inputs, or the shape of one for data that the seed draws
    data: Array | tuple[int, ...]
    twin: Twin
    infinite: tuple[str, ...] = ()
    draws: int | tuple[int, ...] = 400
    widths: tuple[int, ...] = (16, 32, 64)
    #: sizes at finite width; the mean kernel is the same for any number of heads
    sizes: Mapping[str, int] = field(default_factory=dict)

    def inputs(self, seed: int) -> Array:
        return dyadic(seed, 2, *self.data) if isinstance(self.data, tuple) else self.data


def of_zoo(name: str, data: Array | tuple[int, ...], twin: Twin, **options) -> Judged:
    entry = zoo.get(name)
    return Judged(entry.program, data, twin, entry.infinite, **options)


# -- mistakes ------------------------------------------------------------------------------------------


def without(*names: str) -> Twin:
    """The tangent kernel that forgets what some parameters contribute."""

    def claims(limit: tp.KernelLimit, X: Array) -> Mapping[str, Array]:
        rest = (name for name in limit.trained if name not in names)
        return {"ntk": limit.contribution(*rest).evaluate(X).ntk}

    return claims


def kernels_of(network: tp.Program, *kernels: str, infinite: tuple[str, ...] = ()) -> Twin:
    """The kernels of another network on the same data."""

    def claims(_: tp.KernelLimit, X: Array) -> Mapping[str, Array]:
        pair = tp.derive(network, tp.Kernels(infinite=infinite)).evaluate(X)
        return {kernel: getattr(pair, kernel) for kernel in kernels}

    return claims


def ntk_by(recursion: Callable[[Array], R.Layer]) -> Twin:
    """The tangent kernel of a recursion with a mistake in it."""
    return lambda _, X: {"ntk": R.output(recursion(X))[1]}


def rows_of(X: Array) -> R.Layer:
    """The first layer of one-token networks."""
    return R.dense(R.data(X[:, None, :]))


def normed_by_tangents(x: R.Layer) -> R.Layer:
    """LayerNorm whose tangent kernel is divided by its own diagonal instead of that of K."""
    sd = np.sqrt(np.einsum("iaia->ia", x.T))
    return R.Layer(R.layer_norm(x).K, x.T / np.multiply.outer(sd, sd), x.mean, x.real)


def pre_ln(X: Array) -> R.Layer:
    x = rows_of(X)
    for _ in range(2):
        x = R.add(x, R.dense(R.activation(R.dense(normed_by_tangents(x)), "relu")))
    return x


def gain_apart(X: Array) -> R.Layer:
    """Gain and bias as if the gain were independent of the slope: 1 + ρ, where it is E relu′(y) y relu′(y′) y′."""
    y = R.layer_norm(R.dense(rows_of(X)), gain=True, bias=True)
    return R.activation(y, "relu")


# -- networks that the zoo does not have ------------------------------------------------------------------


def embedded(ξ, U):
    return tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))


@tp.network
def skip_apart(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """The two parts of h + relu(h) as if they came from matrices of their own."""
    return v * tp.erf(W @ (embedded(ξ, U) + tp.relu(embedded(ξ, V))))


def pooled_rnn(tied: bool) -> tp.Program:
    """Three steps through one matrix, or through one for each step, and the mean of the states."""

    @tp.network
    def shared(ξ: tp.Input["d", "time"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        drive = embedded(ξ, U)
        x = y = tp.relu(drive.sel(time=0))
        for t in range(1, 3):
            x = tp.relu(W @ x + drive.sel(time=t))
            y = y + x
        return v * y / 3

    @tp.network
    def fresh(ξ: tp.Input["d", "time"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "step"], v: tp.Vector):
        drive = embedded(ξ, U)
        x = y = tp.relu(drive.sel(time=0))
        for t in range(1, 3):
            x = tp.relu(W.sel(step=t - 1) @ x + drive.sel(time=t))
            y = y + x
        return v * y / 3

    return shared.bind(time=3) if tied else fresh.bind(time=3, step=2)


@tp.network
def twice(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """One matrix in two layers, both read out."""
    x = tp.relu(W @ tp.relu(embedded(ξ, U)))
    return v * (x + tp.relu(W @ x))


@tp.network
def once_each(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.relu(W @ tp.relu(embedded(ξ, U)))
    return v * (x + tp.relu(V @ x))


@tp.network
def there_and_back(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """W and then its transpose: the way back returns x times E erf′."""
    return v * tp.erf(W.T @ tp.erf(W @ embedded(ξ, U)))


@tp.network
def there_and_on(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    return v * tp.erf(V @ tp.erf(W @ embedded(ξ, U)))


@tp.network
def autoencoder(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """Tied weights with a skip: dots in the forward pass and in the gradients."""
    h = embedded(ξ, U)
    return v * (h + W.T @ tp.tanh(W @ h))


def dropped_dots(X: Array) -> R.Layer:
    """The autoencoder with Wᵀ φ(W h) as a Gaussian of covariance E φφ′ that nothing else depends on."""
    h = rows_of(X)
    y = R.activation(R.dense(h), "tanh")
    return R.add(h, R.dense(y))


def attention(queries: str, root: bool) -> tp.Program:
    """Softmax of 3 q·k/n, or of 3 q·k/√n and then with many heads; queries "tied" to keys or "free"."""

    @tp.network
    def free(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "head"],
        K: tp.Matrix["n", "n", "head"],
        V: tp.Matrix["n", "n", "head"],
        WO: tp.Matrix["n", "n", "head"],
        v: tp.Vector,
    ):
        x = embedded(ξ, U)
        q, k = Q @ x, ((Q if queries == "tied" else K) @ x).rename(token="key")
        A = tp.softmax(3 * (tp.sqrt(tp.n) if root else 1) * tp.avg(q * k), over="key")
        y = WO @ tp.sum(A * (V @ x).rename(token="key"), over="key")
        return v * tp.mean(tp.sum(y, over="head") / tp.sqrt(tp.size("head")), over="token")

    return free.bind(token=2) if root else free.bind(token=2, head=1)


# -- the table -------------------------------------------------------------------------------------------

#: a single head varies most at small widths, where draws are cheap
HEADS = {"sizes": {"head": 1}, "widths": (8, 32, 128), "draws": (6000, 3000, 800)}
#: the gain's mistake shows where inputs are negatively correlated
OPPOSED = np.array([[1.0, 0, 0], [-1, 1, 0]])
JUDGED: dict[str, Judged] = {
    "mlp without its biases": of_zoo("mlp", (3,), without("b", "c")),
    "residual without a branch's first matrix": of_zoo("residual_mlp", (3,), without("W")),
    "LayerNorm divides by tangents": of_zoo("pre_ln_mlp", (3,), ntk_by(pre_ln)),
    "gate left out": of_zoo("gated_mlp", (3,), without("V"), draws=4000),
    "gain apart from its slope": of_zoo("layer_norm_mlp", OPPOSED, ntk_by(gain_apart), draws=1500),
    "skip of uncorrelated parts": of_zoo("skip_activation", (3,), kernels_of(skip_apart, "nngp")),
    "RNN as a deep network": Judged(pooled_rnn(True), (3, 3), kernels_of(pooled_rnn(False), "ntk"), draws=800),
    "convolution without its first taps": of_zoo("conv1d_pool", (3, 5), without("U")),
    "graph convolution without its first layer": of_zoo("graph_convolution", (3, 4), without("U"), draws=800),
    "transformer block without values": of_zoo("transformer_block", (3, 4), without("WV")),
    "one matrix as two": Judged(twice, (3,), kernels_of(once_each, "nngp", "ntk"), draws=800),
    "a transpose as a fresh matrix": Judged(there_and_back, (3,), kernels_of(there_and_on, "nngp", "ntk")),
    "an autoencoder without dots": Judged(autoencoder, (3,), lambda _, X: {"nngp": R.output(dropped_dots(X))[0]}),
    "tied queries as free": Judged(attention("tied", False), (3, 2), kernels_of(attention("free", False), "nngp")),
    "free queries as tied": Judged(attention("free", False), (3, 2), kernels_of(attention("tied", False), "nngp")),
    "tied queries without values": of_zoo("tied_attention", (3, 4), without("WV")),
    "softmax at 1/√n as at 1/n": Judged(
        attention("free", True), (3, 2), kernels_of(attention("free", False), "nngp"), ("head",), **HEADS
    ),
    "softmax at 1/√n without queries": Judged(attention("free", True), (3, 2), without("Q", "K"), ("head",), **HEADS),
    "many heads without queries": of_zoo("many_heads", (3, 3), without("WQ", "WK"), **HEADS),
}
#: those that `make test` judges
SHORT = ("gate left out", "transformer block without values", "an autoencoder without dots", "one matrix as two")


@pytest.mark.sampling
@pytest.mark.parametrize("name", [n if n in SHORT else pytest.param(n, marks=pytest.mark.long) for n in JUDGED])
def test_derived_kernels_are_accepted_and_a_mistake_is_not(name):
    judged, seed = JUDGED[name], zlib.crc32(name.encode())
    X = judged.inputs(seed)
    limit = tp.derive(judged.network, tp.Kernels(infinite=judged.infinite))
    options = {"widths": judged.widths, "draws": judged.draws, "seed": seed, "level": LEVEL, "progress": False}
    verdict = tp.check(limit, X1=X, constants=judged.sizes, **options)
    assert verdict.accepted, verdict
    assert {row.claim.name[0] for row in verdict.rows} == {"K", "Θ"}
    verdict = tp.check(limit, X1=X, constants=judged.sizes, claims=judged.twin(limit, X), **options)
    assert not verdict.accepted, verdict
