"""Cases with attention: both scalings of the logits, encodings of positions, masks, residual branches, transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import reference_kernels as R
from kernel_case_layers import normalise
from kernel_cases import ACTIVATIONS, Case, Pair, dyadic, embed

import tplimits as tp

TOKENS, EPS = 4, 0.125


def sequences(tokens: int = TOKENS, seed: int = 11, N: int = 3, d: int = 3) -> np.ndarray:
    """Inputs (N, d, tokens); the last repeats the first with its tokens turned round."""
    X = dyadic(seed, N, d, tokens) / 2
    return np.concatenate([X, X[:1, :, ::-1]])


def weights(G: Any, name: str) -> Any:
    """Attention weights from logits over keys."""
    return tp.softmax(G, over="key") if name == "softmax" else ACTIVATIONS[name](G)


def attend(W: Any, V: Any, out: Any, x: Any, seen: Any, name: str, σqk: float = 1.0) -> Any:
    """Attention with one matrix for queries and keys and logits q·k/n; queries and keys read `x`, values `seen`."""
    q, v = W @ x, (V @ seen).rename(token="key")
    A = weights(σqk * tp.avg(q * q.rename(token="key")), name)
    return out @ tp.sum(A * v, over="key")


def decay(tokens: int = TOKENS) -> np.ndarray:
    """Covariance of an encoding that decays with the distance of positions."""
    at = np.arange(1, tokens + 1) / tokens
    return np.exp(-2 * (at[:, None] - at[None, :]) ** 2)


def ends(pooled: bool, x: Any, v: Any, V: Any) -> Any:
    """The mean over tokens, or a readout of every token."""
    return v * tp.mean(x, over="token") if pooled else tp.sum(V * x, over="token") / tp.sqrt(tp.size("token"))


def output(x: R.Layer, pooled: bool) -> Pair:
    """The kernels of `ends`."""
    return R.output(R.pool(x)) if pooled else R.flat_output(x)


def on_sequences(
    name: str,
    network: tp.Program,
    compute: Callable[[R.Layer], Pair],
    first: str | None = None,
    tokens: int = TOKENS,
    **options: Any,
) -> Case:
    """A case on sequences; `compute` takes the dense layer on them, or the activation `first` of it."""
    X = sequences(tokens)

    def kernels() -> Pair:
        x = R.dense(R.data(X.transpose(0, 2, 1)))
        return compute(R.activation(x, first) if first else x)

    return Case(name, lambda: network.bind(token=tokens), {"ξ": X}, kernels, **options)


def end(pooled: bool) -> str:
    """How a name tells `ends`."""
    return "pool" if pooled else "flatten"


# -- logits q·k/d ------------------------------------------------------------------------------------


def vanilla(name: str, pooled: bool, hidden: str | None = None) -> Case:
    """Attention on a dense layer, or on an activation of it."""
    φ = ACTIVATIONS[hidden] if hidden else ACTIVATIONS["identity"]

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        W: tp.Matrix,
        WV: tp.Matrix,
        WO: tp.Matrix,
        v: tp.Vector,
        V: tp.Vector["token"],
    ):
        x = φ(embed(ξ, U))
        return ends(pooled, attend(W, WV, WO, x, x, name, 1.5), v, V)

    def compute(x: R.Layer) -> Pair:
        return output(R.attention_inverse(x, name, σqk=1.5), pooled)

    return on_sequences(f"attention-1/d-{name}-{hidden or 'linear'}-{end(pooled)}", net, compute, hidden)


def independent(pooled: bool) -> Case:
    """Two matrices for queries and keys with logits q·k/n: uniform attention."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        WQ: tp.Matrix,
        WK: tp.Matrix,
        WV: tp.Matrix,
        WO: tp.Matrix,
        v: tp.Vector,
        V: tp.Vector["token"],
    ):
        x = embed(ξ, U)
        A = tp.softmax(tp.avg((WQ @ x) * (WK @ x).rename(token="key")), over="key")
        return ends(pooled, WO @ tp.sum(A * (WV @ x).rename(token="key"), over="key"), v, V)

    def compute(x: R.Layer) -> Pair:
        return output(R.attention_inverse(x, tied=False), pooled)

    return on_sequences(f"attention-1/d-two-matrices-{end(pooled)}", net, compute)


def causal(name: str) -> Case:
    """Tokens see themselves and earlier ones."""
    allowed = np.tril(np.ones((TOKENS, TOKENS)))

    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, WV: tp.Matrix, WO: tp.Matrix, v: tp.Vector):
        x = embed(ξ, U)
        q, mask = W @ x, tp.constant(allowed, axes=("token", "key"))
        G = tp.avg(q * q.rename(token="key"))
        e = mask * (tp.exp(G) if name == "softmax" else ACTIVATIONS[name](G))
        A = e / tp.sum(e, over="key") if name == "softmax" else e
        return v * (WO @ tp.sum(A * (WV @ x).rename(token="key"), over="key"))

    return on_sequences(f"attention-causal-{name}", net, lambda x: R.output(R.attention_inverse(x, name, causal=True)))


def padded(name: str, pooled: bool) -> Case:
    """Sequences of three lengths; the mask is data, and padding holds numbers that must not matter."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        mask: tp.Input["token"],
        U: tp.Vector["d"],
        W: tp.Matrix,
        WV: tp.Matrix,
        WO: tp.Matrix,
        v: tp.Vector,
        V: tp.Vector["token"],
    ):
        x = tp.relu(embed(ξ, U))
        q = W @ x
        G = tp.avg(q * q.rename(token="key"))
        e = mask.rename(token="key") * (tp.exp(G) if name == "softmax" else ACTIVATIONS[name](G))
        A = e / tp.sum(e, over="key") if name == "softmax" else e
        y = mask * (WO @ tp.sum(A * (WV @ x).rename(token="key"), over="key"))
        if pooled:
            return v * tp.sum(y, over="token") / tp.sum(mask, over="token")
        return tp.sum(V * y, over="token") / tp.sqrt(tp.size("token"))

    X, lengths = sequences(), np.array([4, 2, 3, 1])
    real = np.arange(TOKENS)[None, :] < lengths[:, None]

    def compute() -> Pair:
        x = R.activation(R.dense(R.data(X.transpose(0, 2, 1), real)), "relu")
        return output(R.attention_inverse(x, name), pooled)

    label = f"attention-padded-{name}-{end(pooled)}"
    return Case(label, lambda: net.bind(token=TOKENS), {"ξ": X, "mask": real * 1.0}, compute)


def cross() -> Case:
    """Queries read one sequence of three tokens, keys and values another of four."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        η: tp.Input["d", "other"],
        U: tp.Vector["d"],
        W: tp.Matrix,
        WV: tp.Matrix,
        WO: tp.Matrix,
        v: tp.Vector,
    ):
        x, y = embed(ξ, U), embed(η, U)
        A = tp.softmax(tp.avg((W @ x) * (W @ y)), over="other")
        return v * (WO @ tp.sum(A * (WV @ y), over="other"))

    X, Y = sequences(3, seed=21), sequences(4, seed=22)

    def compute() -> Pair:
        both = R.dense(R.data(np.concatenate([X, Y], axis=2).transpose(0, 2, 1)))
        A = np.stack([R.softmax(both.K[i, :3, i, 3:], np.array(True)) for i in range(len(X))])
        y = R.mix(replace(both, K=both.K[:, 3:, :, 3:], T=both.T[:, 3:, :, 3:], mean=both.mean[:, 3:]), A)
        return R.output(replace(y, T=2 * y.K + y.T))

    return Case("attention-cross", lambda: net.bind(token=3, other=4), {"ξ": X, "η": Y}, compute)


# -- encodings of positions ----------------------------------------------------------------------------


def encoded(name: str, R_: np.ndarray, trained: str, on_values: bool, pooled: bool = True) -> Case:
    """√α x + √(1−α) E with E = L Ẽ + E₀, E₀ = 0: Ẽ, E₀ or neither is trained."""
    L, alpha = np.linalg.cholesky(R_ + 0.0), 0.75
    random = bool(np.array_equal(R_, np.eye(TOKENS)))

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        E: tp.Vector["position"],
        W: tp.Matrix,
        WV: tp.Matrix,
        WO: tp.Matrix,
        v: tp.Vector,
        V: tp.Vector["token"],
        E0: tp.Vector["token"] = 0,
    ):
        x = tp.relu(embed(ξ, U))
        encoding = E0 + tp.sum(tp.constant(L, axes=("token", "position")) * E, over="position")
        y = tp.sqrt(alpha) * x + tp.sqrt(1 - alpha) * encoding
        return ends(pooled, attend(W, WV, WO, y, y if on_values else x, name), v, V)

    S = {"none": 0 * R_, "start": np.eye(TOKENS), "factor": R_}[trained]
    train = ("U", "W", "WV", "WO", "v", "V", *{"none": (), "start": ("E0",), "factor": ("E",)}[trained])

    def compute(x: R.Layer) -> Pair:
        return output(R.attention_inverse(x, name, positions=R.Positions(R_, S, alpha, on_values)), pooled)

    label = f"positions-{'random' if random else 'decay'}-{name}-{trained}-{'values' if on_values else 'keys'}"
    return on_sequences(f"{label}-{end(pooled)}", net, compute, "relu", train=train)


def residual(alpha: float, pooled: bool) -> Case:
    """√α x + √(1−α) × linear attention whose queries and keys see positions alone."""
    L = np.linalg.cholesky(decay())

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        E: tp.Vector["position"],
        W: tp.Matrix,
        WV: tp.Matrix,
        WO: tp.Matrix,
        v: tp.Vector,
        V: tp.Vector["token"],
    ):
        x = tp.relu(embed(ξ, U))
        encoding = tp.sum(tp.constant(L, axes=("token", "position")) * E, over="position")
        branch = attend(W, WV, WO, encoding, x, "identity")
        return ends(pooled, tp.sqrt(alpha) * x + tp.sqrt(1 - alpha) * branch, v, V)

    def compute(x: R.Layer) -> Pair:
        return output(R.residual_attention(x, decay(), alpha), pooled)

    return on_sequences(f"residual-attention-{alpha}-{end(pooled)}", net, compute, "relu")


# -- logits q·k/√d -------------------------------------------------------------------------------------


def heads(
    name: str, pooled: bool, hidden: str | None = None, tokens: int = TOKENS, layers: int = 1, encode: bool = False
) -> Case:
    """Independent matrices, logits q·k/√d, infinitely many heads; perhaps ReLU and another such layer after it."""
    φ = ACTIVATIONS[hidden] if hidden else ACTIVATIONS["identity"]
    L = np.linalg.cholesky(decay(tokens))

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        WQ: tp.Matrix["k", "n", "head", "layer"],
        WK: tp.Matrix["k", "n", "head", "layer"],
        WV: tp.Matrix["k", "n", "head", "layer"],
        WO: tp.Matrix["n", "k", "head", "layer"],
        E: tp.Vector["position"],
        v: tp.Vector,
        V: tp.Vector["token"],
    ):
        x = embed(ξ, U)
        for i in range(layers):
            x = φ(x)
            if encode:
                x = tp.sqrt(0.5) * (x + tp.sum(tp.constant(L, axes=("token", "position")) * E, over="position"))
            q, k, u = (M.sel(layer=i) @ x for M in (WQ, WK, WV))
            G = 0.75 * tp.avg(q * k.rename(token="key")) * tp.sqrt(tp.width("k"))
            f = tp.sum(weights(G, name) * u.rename(token="key"), over="key")
            x = tp.sum(WO.sel(layer=i) @ f, over="head") / tp.sqrt(tp.size("head"))
        return ends(pooled, x, v, V)

    positions = R.Positions(decay(tokens), decay(tokens), 0.5) if encode else None

    def compute(x: R.Layer) -> Pair:
        for _ in range(layers):
            x = R.activation(x, hidden) if hidden else x
            x = R.attention_root(x, name, σqk=0.75, positions=positions)
        return output(x, pooled)

    label = f"heads-{name}-{hidden or 'linear'}-{layers}{'-decay' if encode else ''}-{end(pooled)}"
    soft, bound = name == "softmax", net.bind(position=tokens, layer=layers)
    return on_sequences(label, bound, compute, None, tokens, exact=not soft, infinite=("head",), sampled=soft)


# -- transformers --------------------------------------------------------------------------------------


def transformer(depth: int, name: str, after: bool) -> Case:
    """Blocks of attention at 1/d and a perceptron, each with a skip and LayerNorm before or after it."""
    φ = ACTIVATIONS[name]

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "layer"],
        WV: tp.Matrix["n", "n", "layer"],
        WO: tp.Matrix["n", "n", "layer"],
        W1: tp.Matrix["n", "n", "layer"],
        W2: tp.Matrix["n", "n", "layer"],
        v: tp.Vector,
    ):
        x = embed(ξ, U)
        for i in range(depth):
            w, wv, wo, w1, w2 = (M.sel(layer=i) for M in (W, WV, WO, W1, W2))
            y = x if after else normalise(x, True)
            x = x + attend(w, wv, wo, y, y, "softmax")
            x = normalise(x, True) if after else x
            y = x if after else normalise(x, True)
            x = x + w2 @ φ(w1 @ y)
            x = normalise(x, True) if after else x
        return v * tp.mean(x, over="token")

    def compute(x: R.Layer) -> Pair:
        for _ in range(depth):
            branches: tuple[Callable[[R.Layer], R.Layer], ...] = (
                R.attention_inverse,
                lambda y: R.dense(R.activation(R.dense(y), name)),
            )
            for branch in branches:
                y = x if after else R.layer_norm(x, EPS)
                x = R.add(x, branch(y))
                x = R.layer_norm(x, EPS) if after else x
        return R.output(R.pool(x))

    return on_sequences(f"transformer-{'post' if after else 'pre'}-{name}-{depth}", net.bind(layer=depth), compute)


def attentions() -> list[Case]:
    """All of these."""
    both = (True, False)
    cases = [vanilla(a, p, h) for a in ("softmax", "identity", "relu", "abs") for p in both for h in (None, "relu")]
    cases += [independent(p) for p in both]
    cases += [causal(a) for a in ("softmax", "identity", "relu")]
    cases += [padded(a, p) for a in ("softmax", "relu") for p in both]
    cases.append(cross())
    cases += [
        encoded(a, R_, t, on)
        for a in ("softmax", "identity")
        for R_ in (np.eye(TOKENS), decay())
        for t in ("none", "start", "factor")
        for on in both
    ]
    cases += [encoded("softmax", decay(), "factor", on, pooled=False) for on in both]
    cases += [residual(alpha, p) for alpha in (0.25, 0.625) for p in both]
    cases += [heads(a, p, h) for a in ("identity", "relu", "abs") for p in both for h in (None, "relu")]
    cases += [heads(a, True, "relu", layers=2) for a in ("identity", "abs")]
    cases += [heads(a, True, "relu", encode=True) for a in ("identity", "relu")]
    cases += [heads("softmax", p, h, tokens=2) for p in both for h in (None, "relu")]
    cases.append(heads("softmax", True, "relu", tokens=2, encode=True))
    cases += [transformer(L, a, after) for L in (1, 2) for a in ("relu", "gelu") for after in both]
    return [*cases, transformer(24, "gelu", False)]
