"""Cases beyond plain perceptrons: residual, normalised, gated, convolutional, recurrent nets, and reused matrices."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import reference_kernels as R
from kernel_cases import ACTIVATIONS, Case, Pair, dyadic, embed, high, is_exact, suitable

import tplimits as tp

EPS = 0.125


def on_rows(name: str, network: tp.Program, compute: Any, *used: str, **options: Any) -> Case:
    """A case on the rows that suit it; `used` are the activations in it."""
    X, exact = suitable(*used), is_exact(*used)

    def kernels(X: np.ndarray) -> Pair:
        return compute(R.data(X[:, None, :]))

    return Case(
        name, lambda: network, {"ξ": X}, high(kernels, X) if exact else lambda: kernels(X), exact=exact, **options
    )


# -- residual ----------------------------------------------------------------------------------------


def two_matrix_residual(name: str, depth: int) -> Case:
    """x ← x + ½ V φ(W x + ¼b): the branch ends in a matrix of its own."""
    φ = ACTIVATIONS[name]

    @tp.network
    def net(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "layer"],
        V: tp.Matrix["n", "n", "layer"],
        b: tp.Vector["layer"],
        v: tp.Vector,
    ):
        x = embed(ξ, U)
        for i in range(depth):
            x = x + 0.5 * (V.sel(layer=i) @ φ(W.sel(layer=i) @ x + 0.25 * b.sel(layer=i)))
        return v * x

    def compute(ξ: R.Layer) -> Pair:
        x = R.dense(ξ)
        for _ in range(depth):
            x = R.add(x, R.dense(R.activation(R.dense(x, 1, 0.25), name), 0.5))
        return R.output(x)

    return on_rows(f"residual-{name}-{depth}", net.bind(layer=depth), compute, name)


def one_matrix_residual(name: str, depth: int) -> Case:
    """x ← x + φ(W x): branches have means, which add up along the depth."""
    φ = ACTIVATIONS[name]

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = embed(ξ, U)
        for i in range(depth):
            x = x + φ(W.sel(layer=i) @ x)
        return v * x

    def compute(ξ: R.Layer) -> Pair:
        x = R.dense(ξ)
        for _ in range(depth):
            x = R.add(x, R.activation(R.dense(x), name))
        return R.output(x)

    return on_rows(f"residual-one-matrix-{name}-{depth}", net.bind(layer=depth), compute, name)


def double_nonlinearity(first: str, second: str) -> Case:
    """ψ(W(h + φ(h))), a feature that is not Gaussian: h and φ(h) are correlated."""
    φ, ψ = ACTIVATIONS[first], ACTIVATIONS[second]

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * ψ(W @ φ(embed(ξ, U)))

    def compute(ξ: R.Layer) -> Pair:
        x = R.activation(R.dense(ξ), first)
        return R.output(R.activation(R.dense(x), second))

    return on_rows(f"double-{first}-{second}", net, compute, first, second)


# -- normalised --------------------------------------------------------------------------------------


def normalise(x: Any, centred: bool) -> Any:
    """LayerNorm or RMSNorm over neurons."""
    y = x - tp.avg(x) if centred else x
    return y / tp.sqrt(tp.avg(y**2) + EPS)


def norm(name: str, centred: bool, before: bool, affine: bool) -> Case:
    """Two layers with a normalisation before or after the activation, with trained gain 1 and bias 0 or without."""
    φ = ACTIVATIONS[name]

    def layer(h: Any, g: Any, β: Any) -> Any:
        h = h if before else φ(h)
        y = normalise(h, centred)
        y = g * y + β if affine else y
        return φ(y) if before else y

    @tp.network
    def affine_net(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix,
        v: tp.Vector,
        g1: tp.Vector = 1,
        g2: tp.Vector = 1,
        β1: tp.Vector = 0,
        β2: tp.Vector = 0,
    ):
        return v * layer(W @ layer(embed(ξ, U), g1, β1), g2, β2)

    @tp.network
    def plain_net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * layer(W @ layer(embed(ξ, U), 1, 0), 1, 0)

    def kernels(h: R.Layer) -> R.Layer:
        h = h if before else R.activation(h, name)
        y = R.layer_norm(h, EPS, centred, gain=affine and not before, bias=affine and not before)
        if not before:
            return y
        return R.affine_activation(y, name) if affine else R.activation(y, name)

    def compute(ξ: R.Layer) -> Pair:
        return R.output(kernels(R.dense(kernels(R.dense(ξ)))))

    what = ("layer" if centred else "rms") + ("-before" if before else "-after") + ("-affine" if affine else "")
    return on_rows(f"norm-{what}-{name}", affine_net if affine else plain_net, compute, name)


# -- gates -------------------------------------------------------------------------------------------


def gated(name: str, depth: int) -> Case:
    """x ← (W x) ⊙ φ(V x + ½b): a gated linear unit."""
    φ = ACTIVATIONS[name]

    @tp.network
    def net(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "layer"],
        V: tp.Matrix["n", "n", "layer"],
        b: tp.Vector["layer"],
        v: tp.Vector,
    ):
        x = embed(ξ, U)
        for i in range(depth):
            x = (W.sel(layer=i) @ x) * φ(V.sel(layer=i) @ x + 0.5 * b.sel(layer=i))
        return v * x

    def compute(ξ: R.Layer) -> Pair:
        x = R.dense(ξ)
        for _ in range(depth):
            x = R.product(R.dense(x), R.activation(R.dense(x, 1, 0.5), name))
        return R.output(x)

    return on_rows(f"gated-{name}-{depth}", net.bind(layer=depth), compute, name)


# -- positions ---------------------------------------------------------------------------------------


def neighbours(shape: tuple[int, ...]) -> np.ndarray:
    """The position that each tap reads at each place, 3 taps a dimension, −1 outside: zero padding of equal size."""
    number = np.pad(np.arange(np.prod(shape)).reshape(shape), 1, constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(number, (3,) * len(shape))
    return windows.reshape(int(np.prod(shape)), -1).T.copy()


@cache
def _convolved(name: str, depth: int, shape: tuple[int, ...], σw: float, σb: float) -> Any:
    """The recursion up to a layer, which several cases share; in 40 digits where means have closed forms."""
    if not depth:
        X = dyadic(len(shape), 3, 2, int(np.prod(shape)))
        return R.data((R.high(X) if is_exact(name) else X).transpose(0, 2, 1))
    before = _convolved(name, depth - 1, shape, σw, σb)
    return R.activation(R.convolution(before, neighbours(shape), σw, σb), name)


def convolutional(name: str, depth: int, shape: tuple[int, ...], flat: bool, σw: float, σb: float) -> Case:
    """`depth` convolutions with padding, then the mean over positions or a readout of all of them."""
    φ, taps = ACTIVATIONS[name], neighbours(shape)
    root = tp.sqrt(len(taps))

    @tp.network
    def net(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        b: tp.Vector["depth"],
        v: tp.Vector,
        V: tp.Vector["at"],
    ):
        seen = tp.sum(U * ξ.take(at=taps, axes=("tap", "at")), over=("d", "tap"))
        x = φ(σw * seen / (tp.sqrt(tp.size("d")) * root) + σb * b.sel(depth=0))
        for i in range(depth - 1):
            read = W.sel(layer=i) @ x.take(at=taps, axes=("tap", "at"))
            x = φ(σw * tp.sum(read, over="tap") / root + σb * b.sel(depth=i + 1))
        return tp.sum(V * x, over="at") / tp.sqrt(tp.size("at")) if flat else v * tp.mean(x, over="at")

    X, exact = dyadic(len(shape), 3, 2, int(np.prod(shape))), is_exact(name)

    def compute(_: np.ndarray) -> Pair:
        x = _convolved(name, depth, shape, σw, σb)
        return R.flat_output(x) if flat else R.output(R.pool(x))

    label = f"conv{len(shape)}d-{name}-{depth}-{'flatten' if flat else 'pool'}"
    bound = net.bind(at=int(np.prod(shape)), layer=max(depth - 1, 1), depth=depth)
    return Case(label, lambda: bound, {"ξ": X}, high(compute, X) if exact else lambda: compute(X), exact=exact)


def graph(name: str, depth: int, pooled: bool) -> Case:
    """x ← φ(W Σ_j A_ij x_j) on a path of five nodes with self-loops, A normalised by degrees."""
    φ = ACTIVATIONS[name]
    links = np.eye(5) + np.eye(5, k=1) + np.eye(5, k=-1)
    A = links / links.sum(axis=1, keepdims=True)

    @tp.network
    def net(ξ: tp.Input["d", "node"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        weights = tp.constant(A, axes=("node", "from_"))
        x = embed(ξ, U)
        for i in range(depth):
            x = φ(W.sel(layer=i) @ tp.sum(weights * x.rename(node="from_"), over="from_"))
        return v * tp.mean(x, over="node") if pooled else v * x

    X = dyadic(5, 3, 3, 5)

    def compute() -> Pair:
        x = R.dense(R.data(X.transpose(0, 2, 1)))
        for _ in range(depth):
            x = R.activation(R.dense(R.mix(x, A)), name)
        return R.output(R.pool(x) if pooled else x)

    bound = net.bind(node=5, layer=depth)
    return Case(
        f"graph-{name}-{depth}-{'pool' if pooled else 'nodes'}", lambda: bound, {"ξ": X}, compute, exact=is_exact(name)
    )


def recurrent(name: str, steps: int, readouts: str, σw: float = 1.25, σu: float = 1.0, σb: float = 0.25) -> Case:
    """h_t = σw W x_{t−1} + σu U ξ_t/√d + σb b with one W, read out at the end or on average."""
    φ = ACTIVATIONS[name]

    @tp.network
    def net(ξ: tp.Input["d", "time"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
        states: list[Any] = []
        for t in range(steps):
            h = σu * embed(ξ.sel(time=t), U) + σb * b
            states.append(φ(h + σw * (W @ states[-1])) if states else φ(h))
        return v * states[-1] if readouts == "last" else v * (sum(states) / steps)

    X = dyadic(7, 3, 4, steps)

    def compute(X: np.ndarray) -> Pair:
        return R.output(R.tied_rnn(X.transpose(0, 2, 1), name, σw, σu, σb, readouts))

    exact = is_exact(name)
    reference = high(compute, X) if exact else lambda: compute(X)
    return Case(f"rnn-{name}-{steps}-{readouts}", lambda: net.bind(time=steps), {"ξ": X}, reference, exact=exact)


# -- one matrix, used twice ----------------------------------------------------------------------------


def transposed(first: str, second: str) -> Case:
    """v·ψ(Wᵀ φ(W x)): gradient independence gives another kernel."""
    φ, ψ = ACTIVATIONS[first], ACTIVATIONS[second]

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * ψ(W.T @ φ(W @ embed(ξ, U)))

    def compute(ξ: R.Layer) -> Pair:
        return R.output(R.reused_transpose(R.dense(ξ), first, second))

    return on_rows(f"transposed-{first}-{second}", net, compute, first, second)


def frozen(name: str, train: tuple[str, ...]) -> Case:
    """Some parameters of a perceptron with two hidden layers are trained."""
    φ = ACTIVATIONS[name]

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector, c: tp.Scalar):
        x = φ(embed(ξ, U))
        return tp.readout(v * φ(1.5 * (W @ x) + 0.5 * b)) + 0.25 * c

    def compute(ξ: R.Layer) -> Pair:
        first = R.dense(ξ)
        first = replace(first, T=first.T * ("U" in train))
        x = R.activation(first, name)
        T = 2.25 * x.T + 2.25 * x.K * ("W" in train) + 0.25 * ("b" in train)
        y = R.activation(replace(R.dense(x, 1.5, 0.5), T=T), name)
        nngp = y.K[:, 0, :, 0]
        return nngp + 0.0625, y.T[:, 0, :, 0] + nngp * ("v" in train) + 0.0625 * ("c" in train)

    return on_rows(f"train-{'-'.join(train)}-{name}", net, compute, name, train=train)


def layers() -> list[Case]:
    """All of these."""
    cases = [two_matrix_residual(a, L) for a in ("relu", "erf", "gelu", "tanh") for L in (1, 2, 4)]
    cases += [one_matrix_residual(a, L) for a in ("relu", "erf", "square", "cos", "softplus") for L in (1, 2, 3)]
    double = (("u_plus_relu", "erf"), ("u_plus_relu", "u_plus_relu"), ("tanh_relu", "relu"), ("softplus_abs", "sin"))
    cases += [double_nonlinearity(*pair) for pair in double]
    cases += [
        norm(a, centred, before, affine)
        for a in ("relu", "erf", "gelu", "tanh")
        for centred in (True, False)
        for before in (True, False)
        for affine in (True, False)
    ]
    cases += [gated(a, L) for a in ("sigmoid", "swish", "relu", "gelu", "identity") for L in (1, 2)]
    line, plane = (4,), (3, 3)
    cases += [
        convolutional(a, L, line, flat, 1.5, 0.25)
        for a in ("relu", "erf", "tanh")
        for L in (1, 2, 3)
        for flat in (True, False)
    ]
    cases += [
        convolutional(a, L, plane, flat, 1.25, 0.5) for a in ("relu", "gelu") for L in (1, 2) for flat in (True, False)
    ]
    cases += [graph(a, L, pooled) for a in ("relu", "erf") for L in (1, 2) for pooled in (True, False)]
    cases += [recurrent(a, t, r) for a in ("erf", "relu", "tanh") for t in (2, 4) for r in ("last", "mean")]
    cases += [transposed(*p) for p in (("relu", "erf"), ("erf", "erf"), ("tanh", "relu"), ("sin", "identity"))]
    cases += [frozen("relu", t) for t in (("v",), ("W",), ("U", "b"), ("c", "W", "v"), ("U", "W", "b", "v", "c"))]
    return cases
