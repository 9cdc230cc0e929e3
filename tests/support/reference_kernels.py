"""NNGP and tangent kernels layer by layer, from published recursions: an oracle that knows nothing of programs.

A `Layer` holds, for all inputs and positions at once, the second moments K of one neuron and the tangent kernel T, both
of shape (inputs, positions, inputs, positions), and the means of the neuron.  Functions take layers to layers.  NTK
parametrisation: every parameter is N(0, 1), a matrix stands with 1/√fan-in.  With arrays of mpmath numbers (`high`)
the same recursions run in the working precision of mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import mpmath
import numpy as np
import reference_duals as duals
import scipy.special

Array = np.ndarray


@dataclass(frozen=True)
class Layer:
    """Kernels of one vector for all pairs of (input, position); where `real` is false a position is padding."""

    K: Array
    T: Array
    mean: Array
    real: Array

    @property
    def variance(self) -> Array:
        """K on the diagonal, (inputs, positions)."""
        return np.einsum("iaia->ia", self.K)

    def masked(self) -> Layer:
        """Zero where a position is padding."""
        both = self.real[:, :, None, None] & self.real[None, None]
        zero = self.K * 0
        return replace(self, K=np.where(both, self.K, zero), T=np.where(both, self.T, zero))


def high(X: Array) -> Array:
    """The same numbers in mpmath's precision."""
    return np.vectorize(mpmath.mpf, otypes=[object])(X)


def data(X: Array, real: Array | None = None) -> Layer:
    """Inputs (N, positions, d) as they are: K = x·x′/d, nothing trained."""
    K = np.einsum("iad,jbd->iajb", X, X) / X.shape[-1]
    known = np.ones(X.shape[:2], dtype=bool) if real is None else real
    return Layer(K, K * 0, X[..., 0] * 0, known).masked()


def fresh(K: Array, real: Array) -> Layer:
    """A Gaussian vector with nothing trained in it, such as an encoding of positions."""
    return Layer(K, K * 0, np.einsum("iaia->ia", K) * 0, real)


def dense(x: Layer, σw: float = 1, σb: float = 0) -> Layer:
    """σw W x + σb b at every position."""
    K = σw * σw * x.K + σb * σb
    return Layer(K, K + σw * σw * x.T, x.mean * 0, x.real).masked()


def activation(h: Layer, name: str) -> Layer:
    """φ(h) for a Gaussian h; T is 0 where φ′ is no function, and then means nothing."""
    v = h.variance
    K, D = duals.dual(name, v[:, :, None, None] + h.K * 0, h.K, v[None, None] + h.K * 0)
    T = h.T * (0 if D is None else D)
    return Layer(K, T, duals.mean(name, v), h.real).masked()


def add(*layers: Layer) -> Layer:
    """The sum of uncorrelated vectors with means: K holds second moments."""
    total = layers[0]
    for x in layers[1:]:
        cross = np.multiply.outer(total.mean, x.mean)
        K = total.K + x.K + cross + np.multiply.outer(x.mean, total.mean)
        total = Layer(K, total.T + x.T, total.mean + x.mean, total.real).masked()
    return total


def scale(x: Layer, c: float) -> Layer:
    """c x."""
    return replace(x, K=c * c * x.K, T=c * c * x.T, mean=c * x.mean)


def product(x: Layer, y: Layer) -> Layer:
    """x ⊙ y for independent vectors, each the other's gate."""
    return Layer(x.K * y.K, x.T * y.K + x.K * y.T, x.mean * y.mean, x.real)


def mix(x: Layer, A: Array) -> Layer:
    """Σ_a A[out, a] x_a with fixed numbers: shape (out, positions), or (inputs, out, positions)."""
    A = np.broadcast_to(A, (len(x.mean), *A.shape)) if A.ndim == 2 else A

    def both(M: Array) -> Array:
        return np.einsum("jdb,iajb->iajd", A, np.einsum("ica,iajb->icjb", A, M))

    return Layer(both(x.K), both(x.T), np.einsum("ica,ia->ic", A, x.mean), np.ones(A.shape[:2], dtype=bool))


def pool(x: Layer) -> Layer:
    """The mean over the positions that are there."""
    return mix(x, (x.real / x.real.sum(axis=1, keepdims=True))[:, None, :])


def convolution(x: Layer, taps: Array, σw: float = 1, σb: float = 0) -> Layer:
    """σw Σ_t W_t x[taps[t]]/√taps + σb b; −1 is outside and counts as 0 (zero padding)."""
    K, T = 0 * x.K[:, :1, :, :1], 0 * x.K[:, :1, :, :1]
    for tap in taps:
        A = (tap[:, None] == np.arange(x.K.shape[1])) * 1.0
        read = mix(x, A)
        K, T = K + read.K / len(taps), T + read.T / len(taps)
    real = np.ones((len(x.mean), taps.shape[1]), dtype=bool)
    return dense(Layer(K, T, np.zeros(real.shape) + 0 * K[:, 0, 0, 0][:, None], real), σw, σb)


def layer_norm(x: Layer, eps: float = 0, centred: bool = True, gain: bool = False, bias: bool = False) -> Layer:
    """(x − avg x)/√(avg (x − avg x)² + ε), gain 1 and bias 0; RMSNorm leaves the mean in.

    The scalars' own gradients vanish, so T is divided by the standard deviations of x itself.
    """
    m = x.mean if centred else x.mean * 0
    K = x.K - np.multiply.outer(m, m)
    sd = duals.sqrt(np.einsum("iaia->ia", K) + eps)
    both = np.multiply.outer(sd, sd)
    K = K / both
    T = x.T / both + (K if gain else 0) + (1 if bias else 0)
    return Layer(K, T, (x.mean - m) / sd, x.real).masked()


def affine_activation(y: Layer, name: str) -> Layer:
    """φ(g ⊙ y + β) with trained g = 1 and β = 0, for a Gaussian y.

    The gradient in g is φ′(y) y: not a product of two means, unlike that of a gain behind which stands a fresh matrix.
    """
    v = y.variance
    p, q = v[:, :, None, None] + y.K * 0, v[None, None] + y.K * 0
    x = activation(replace(y, T=y.T + 1), name)
    return replace(x, T=x.T + duals.gain_dual(name, p, y.K, q)).masked()


def reused_transpose(x: Layer, name: str, back: str) -> Layer:
    """ψ(Wᵀ φ(W x)) for a Gaussian x: the transpose returns x times E φ′, which is not gradient independence."""
    y = activation(Layer(x.K, x.K * 0, x.mean, x.real), name)
    v = x.variance
    _, D = duals.dual(name, v[:, :, None, None] + x.K * 0, x.K, v[None, None] + x.K * 0)
    c = duals.derivative_mean(name, v)
    cc = np.multiply.outer(c, c)
    z = Layer(y.K + cc * x.K, y.K + D * x.K + (D + cc) * x.T, x.mean * 0, x.real)
    return activation(z, back)


def tied_rnn(X: Array, name: str, σw: float, σu: float, σb: float, readouts: str = "last") -> Layer:
    """h_t = σw W x_{t−1} + σu U ξ_t/√d + σb b, x_t = φ(h_t), x_0 = 0, one W for all steps (N, steps, d).

    Gradients at steps s and t correlate when equally many matrices lie behind them, so both step back together.
    """
    N, steps, _ = X.shape
    drive = σu * σu * data(X).K + σb * σb
    nothing = 0 * drive[:, 0, :, 0]
    h, x = ((np.zeros_like(drive), np.zeros_like(drive)) for _ in range(2))
    for s in range(steps):
        for t in range(s + 1):
            K, T = (M[:, s - 1, :, t - 1] if t else nothing for M in x)
            store(h[0], s, t, drive[:, s, :, t] + σw * σw * K)
            store(h[1], s, t, h[0][:, s, :, t] + σw * σw * T)
        for t in range(s + 1):
            p, q = (np.diagonal(h[0][:, r, :, r]) for r in (s, t))
            K, D = duals.dual(name, p[:, None] + nothing, h[0][:, s, :, t], q[None, :] + nothing)
            store(x[0], s, t, K)
            store(x[1], s, t, D * h[1][:, s, :, t])
    states = Layer(x[0], x[1], X[..., 0] * 0, np.ones((N, steps), dtype=bool))
    A = np.full((1, steps), 1 / steps) if readouts == "mean" else (np.arange(steps) == steps - 1)[None] * 1.0
    return mix(states, A)


def store(M: Array, s: int, t: int, block: Array) -> None:
    """A block between two steps, and its transpose."""
    M[:, s, :, t], M[:, t, :, s] = block, block.T


# -- attention ------------------------------------------------------------------------------------

Weights = Callable[[Array, Array], Array]


def softmax(G: Array, real: Array) -> Array:
    """Over the last axis, without keys that are padding."""
    return scipy.special.softmax(np.where(real, G, -np.inf), axis=-1)


def entrywise(f: Callable[[Array], Array]) -> Weights:
    """A function of every logit; keys that are padding get 0."""
    return lambda G, real: np.where(real, f(G), 0.0)


WEIGHTS: dict[str, Weights] = {
    "softmax": softmax,
    "identity": entrywise(lambda G: G),
    "relu": entrywise(lambda G: np.maximum(G, 0)),
    "abs": entrywise(np.abs),
}


@dataclass(frozen=True)
class Positions:
    """An encoding of positions √α x + √(1−α) E: covariance R of E, tangent kernel S of E, and whether values see it."""

    R: Array
    S: Array
    alpha: float = 0.5
    on_values: bool = True

    def __call__(self, x: Layer) -> Layer:
        N = len(x.mean)

        def every(M: Array) -> Array:
            return np.broadcast_to(M[None, :, None, :], (N, len(M), N, len(M)))

        E = Layer(every(self.R), every(self.S), x.mean * 0, x.real)
        both = add(scale(x, self.alpha**0.5), scale(E, (1 - self.alpha) ** 0.5))
        return replace(both, mean=x.mean * self.alpha**0.5).masked()


def attention_inverse(
    x: Layer,
    name: str = "softmax",
    σqk: float = 1,
    σov: float = 1,
    positions: Positions | None = None,
    causal: bool = False,
    tied: bool = True,
) -> Layer:
    """Logits q·k/d: with one matrix for queries and keys they converge to σqk K(x, x), with two to 0 (τ = 1)."""
    qk = positions(x) if positions else x
    v = qk if positions and positions.on_values else x
    allowed = np.tril(np.ones((x.K.shape[1],) * 2, dtype=bool)) if causal else np.array(True)
    A = np.stack([WEIGHTS[name](σqk * qk.K[i, :, i] * tied, allowed & x.real[i][None, :]) for i in range(len(x.mean))])
    out = scale(mix(v, A), σov)
    return replace(out, T=2 * out.K + out.T, mean=x.mean * 0, real=x.real).masked()


def attention_root(
    x: Layer, name: str = "identity", σqk: float = 1, σov: float = 1, positions: Positions | None = None
) -> Layer:
    """Logits q·k/√d with independent matrices, infinitely many heads (τ = ½)."""
    qk = positions(x) if positions else x
    v = qk if positions and positions.on_values else x
    N = len(x.mean)
    K, T = np.zeros_like(x.K), np.zeros_like(x.K)
    for i in range(N):
        for j in range(N):
            Z, J = logit_moments(name, σqk, qk.K[i, :, i], qk.K[i, :, j], qk.K[j, :, j], x.real[i], x.real[j])
            P, M = qk.K[i, :, j], qk.T[i, :, j]
            PV, MV = v.K[i, :, j], v.T[i, :, j]
            kernel = σov**2 * Z(PV)
            K[i, :, j] = kernel
            T[i, :, j] = 2 * kernel + σov**2 * Z(MV)
            T[i, :, j] += (σov * σqk) ** 2 * ((2 * P + M) * J(PV, P) + P * J(PV, M))
    return Layer(K, T, x.mean * 0, x.real).masked()


Moments = tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]


def logit_moments(name: str, σ: float, Pxx: Array, P: Array, Pyy: Array, xreal: Array, yreal: Array) -> Moments:
    """A ↦ Σ_ij A_ij E[ζ_ai ζ′_bj], and A, M ↦ Σ A_cc′ M_dd′ E[∂ζ_ac/∂G_ad ∂ζ′_bc′/∂G_bd′]."""
    if name == "softmax":
        return two_token_softmax(σ, Pxx, P, Pyy)
    if name == "identity":
        return lambda A: σ * σ * P * (A * P).sum(), lambda A, M: (A * M).sum() + 0 * P
    p = σ * σ * np.multiply.outer(np.diag(Pxx), np.diag(Pxx))[:, :, None, None]
    q = σ * σ * np.multiply.outer(np.diag(Pyy), np.diag(Pyy))[None, None]
    c = σ * σ * np.einsum("ab,ij->aibj", P, P)
    E0, E1 = duals.dual(name, p + 0 * c, c, q + 0 * c)
    there = (xreal[:, None] & yreal[None, :])[None, :, None, :].transpose(0, 2, 1, 3)  # (1, 1, i, j)
    E0, E1 = (np.where(there, E.transpose(0, 2, 1, 3), 0) for E in (E0, E1))
    return lambda A: np.einsum("ij,abij->ab", A, E0), lambda A, M: np.einsum("ij,abij->ab", A * M, E1)


def two_token_softmax(σ: float, Pxx: Array, P: Array, Pyy: Array) -> Moments:
    """Two tokens: the first weight is the sigmoid of the difference of logits, one Gaussian number a query."""
    if P.shape != (2, 2):
        raise ValueError("softmax at 1/√d has a deterministic reference for two tokens")
    d = np.array([1.0, -1.0])
    p = σ * σ * np.diag(Pxx)[:, None] * (d @ Pxx @ d)
    q = σ * σ * np.diag(Pyy)[None, :] * (d @ Pyy @ d)
    c = σ * σ * P * (d @ P @ d)
    first = duals.dual("sigmoid", p + 0 * c, c, q + 0 * c)
    half = 0.5  # E of a weight, by symmetry
    both = first[0]
    E = np.array([[both, half - both], [half - both, 1 - 2 * half + both]])  # (i, j, a, b)
    return (
        lambda A: np.einsum("ij,ijab->ab", A, E),
        lambda A, M: first[1] * (d @ A @ d) * (d @ M @ d),
    )


def residual_attention(x: Layer, R: Array, alpha: float) -> Layer:
    """√α x + √(1−α) × attention with weights R: the 2K of attention is that of the branch."""
    branch = mix(x, R)
    branch = replace(branch, T=2 * branch.K + branch.T, mean=x.mean * 0)
    return add(scale(x, alpha**0.5), scale(branch, (1 - alpha) ** 0.5))


# -- the output -----------------------------------------------------------------------------------


def flat_output(x: Layer, σw: float = 1, σb: float = 0) -> tuple[Array, Array]:
    """A readout with weights of their own for every position, divided by √positions, padding included."""
    K, T = (np.einsum("iaja->ij", M) * (σw * σw) / x.K.shape[1] for M in (x.K, x.T))
    return K + σb * σb, K + T + σb * σb


def output(x: Layer, σw: float = 1, σb: float = 0) -> tuple[Array, Array]:
    """NNGP and NTK of σw n^(−1/2) Σ v x + σb c, axes of length 1 dropped."""
    f = dense(x, σw, σb)
    single = f.mean.shape[1] == 1
    return (f.K[:, 0, :, 0], f.T[:, 0, :, 0]) if single else (f.K.transpose(0, 2, 1, 3), f.T.transpose(0, 2, 1, 3))


def floats(pair: tuple[Array, Array]) -> tuple[Array, Array]:
    """Numbers of mpmath as floats."""
    return pair[0].astype(float), pair[1].astype(float)
