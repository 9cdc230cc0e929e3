"""The transformer of Odonnat, Bouaziz and Cabannes by hand: NumPy, forward and backward, nothing of the package.

With E (K, d), P (L, d), q (d), V (d, d), w (h, d), b (h), u (h, d), c (d), tokens x_t in 0 … K − 1, r the radius of the
norm:

    z_t = r (E(x_t) + P(t))/|E(x_t) + P(t)|,   s = softmax(z·q/√d),   ξ = V Σ_t s_t z_t,   ξ̄ = r ξ/|ξ|,
    ψ = ξ + c + m Σ_i u_i σ(w_i·ξ̄ + b_i),      ζ_v = E(v)·ψ,          loss = mean of −log softmax(ζ)_y.

m = 1 is the network as published.  m = h₀/h, with gradients of (w, b, u) divided by m, is μP with base width h₀, and
the mean field when rows of (w, b, u) are particles.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import erf

Array = np.ndarray
Parameters = dict[str, Array]
#: parameters of neurons, which are multiplied in μP
OF_NEURONS = ("w", "b", "u")


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def gelu_slope(x: Array) -> Array:
    return (1 + erf(x / np.sqrt(2))) / 2 + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def every_sequence(p: int, length: int) -> Array:
    """All pᴸ sequences."""
    return np.array(list(itertools.product(range(p), repeat=length)))


def target(x: Array, p: int, k: int) -> Array:
    """The sum of the first k tokens mod p."""
    return x[:, :k].sum(axis=1) % p


def pytorch_draw(rng: np.random.Generator, d: int, h: int, vocab: int, length: int) -> Parameters:
    """PyTorch's defaults: N(0, 1) for embeddings, uniform with 1/√(fan in) for linear layers."""
    a, o = d**-0.5, h**-0.5
    return {
        "E": rng.standard_normal((vocab, d)),
        "P": rng.standard_normal((length, d)),
        "q": rng.uniform(-a, a, d),
        "V": rng.uniform(-a, a, (d, d)),
        "c": rng.uniform(-o, o, d),
        "w": rng.uniform(-a, a, (h, d)),
        "b": rng.uniform(-a, a, h),
        "u": rng.uniform(-o, o, (h, d)),
    }


@dataclass(frozen=True)
class Pass:
    """Everything between sequences and logits, rows are inputs; tables have rows (v, t)."""

    lookup: Array  # one-hot, (inputs, K L)
    S: Array
    Z: Array
    VZ: Array
    attention: Array  # (inputs, K L), 0 at tokens that are not there
    ξ: Array
    ξ_bar: Array
    pre: Array
    act: Array
    ψ: Array
    ζ: Array

    @property
    def probabilities(self) -> Array:
        e = np.exp(self.ζ - self.ζ.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def loss(self, y: Array) -> float:
        return float(-np.log(self.probabilities[np.arange(len(y)), y]).mean())

    def accuracy(self, y: Array) -> float:
        return float((self.ζ.argmax(axis=1) == y).mean())


def lookup(x: Array, vocab: int) -> Array:
    """The one-hot matrix of the tokens (v, t) of every sequence."""
    rows, length = x.shape
    found = np.zeros((rows, vocab, length))
    found[np.arange(rows)[:, None], x, np.arange(length)] = 1
    return found.reshape(rows, -1)


def forward(θ: Parameters, x: Array, m: float = 1.0, radius: float = 1.0) -> Pass:
    """All values of the network on integer sequences x (inputs, L)."""
    d = θ["E"].shape[1]
    H = lookup(x, len(θ["E"]))
    S = (θ["E"][:, None] + θ["P"][None]).reshape(-1, d)
    Z = radius * S / np.linalg.norm(S, axis=1, keepdims=True)
    VZ = Z @ θ["V"].T
    logits = Z @ θ["q"] / np.sqrt(d)
    weights = H * np.exp(logits - logits.max())
    attention = weights / weights.sum(axis=1, keepdims=True)
    ξ = attention @ VZ
    ξ_bar = radius * ξ / np.linalg.norm(ξ, axis=1, keepdims=True)
    pre = ξ_bar @ θ["w"].T + θ["b"]
    act = gelu(pre)
    ψ = ξ + θ["c"] + m * act @ θ["u"]
    return Pass(H, S, Z, VZ, attention, ξ, ξ_bar, pre, act, ψ, ψ @ θ["E"].T)


def backward(θ: Parameters, run: Pass, G: Array, m: float = 1.0, radius: float = 1.0) -> Parameters:
    """Σ over inputs and logits of G ∂ζ/∂θ: of the loss for G = (p̂ − onehot)/inputs."""
    K, d = θ["E"].shape
    gψ = G @ θ["E"]
    ga = m * (gψ @ θ["u"].T) * gelu_slope(run.pre)
    g_bar = ga @ θ["w"]
    size = np.linalg.norm(run.ξ, axis=1, keepdims=True)
    unit = run.ξ / size
    gξ = gψ + radius * (g_bar - unit * (unit * g_bar).sum(axis=1, keepdims=True)) / size
    gVZ = run.attention.T @ gξ
    g_logit = (run.VZ * gVZ).sum(axis=1) - run.attention.T @ (run.ξ * gξ).sum(axis=1)
    gZ = gVZ @ θ["V"] + g_logit[:, None] * θ["q"] / np.sqrt(d)
    size = np.linalg.norm(run.S, axis=1, keepdims=True)
    unit = run.S / size
    gS = (radius * (gZ - unit * (unit * gZ).sum(axis=1, keepdims=True)) / size).reshape(K, -1, d)
    return {
        "E": gS.sum(axis=1) + G.T @ run.ψ,
        "P": gS.sum(axis=0),
        "q": run.Z.T @ g_logit / np.sqrt(d),
        "V": gVZ.T @ run.Z,
        "c": gψ.sum(axis=0),
        "w": ga.T @ run.ξ_bar,
        "b": ga.sum(axis=0),
        "u": m * run.act.T @ gψ,
    }


def loss_gradient(θ: Parameters, x: Array, y: Array, m: float = 1.0, radius: float = 1.0) -> tuple[float, Parameters]:
    """The cross-entropy and its gradients; those of neurons are divided by m."""
    run = forward(θ, x, m, radius)
    G = run.probabilities.copy()
    G[np.arange(len(y)), y] -= 1
    found = backward(θ, run, G / len(y), m, radius)
    return run.loss(y), {name: g / m if name in OF_NEURONS else g for name, g in found.items()}


# -- optimizers ------------------------------------------------------------------------------------------


@dataclass
class Adam:
    """PyTorch's: ε outside of the root, after the bias corrections; `inside`: √(v + ε²) instead."""

    lr: float
    eps: float = 1e-8
    inside: bool = False
    means: Parameters = field(default_factory=dict)
    squares: Parameters = field(default_factory=dict)
    steps: int = 0

    def step(self, θ: Parameters, g: Mapping[str, Array]) -> None:
        self.steps += 1
        one, two = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        for name, gradient in g.items():
            mean = self.means[name] = 0.9 * self.means.get(name, 0.0) + 0.1 * gradient
            square = self.squares[name] = 0.999 * self.squares.get(name, 0.0) + 0.001 * gradient**2
            size = np.sqrt(square / two + self.eps**2) if self.inside else np.sqrt(square / two) + self.eps
            θ[name] = θ[name] - self.lr * (mean / one) / size


@dataclass
class Descent:
    """θ ← θ − η g."""

    lr: float

    def step(self, θ: Parameters, g: Mapping[str, Array]) -> None:
        for name, gradient in g.items():
            θ[name] = θ[name] - self.lr * gradient


def train(
    θ: Parameters,
    x: Array,
    y: Array,
    optimizer: Adam | Descent,
    steps: int,
    m: float = 1.0,
    radius: float = 1.0,
    batches: Callable[[int], Array] | None = None,
) -> Iterator[Parameters]:
    """Parameters after 0, 1, … steps, on all inputs or on those of `batches(t)`."""
    θ = dict(θ)
    yield dict(θ)
    for t in range(steps):
        rows = slice(None) if batches is None else batches(t)
        optimizer.step(θ, loss_gradient(θ, x[rows], y[rows], m, radius)[1])
        yield dict(θ)


# -- the gradients of the paper --------------------------------------------------------------------------


@dataclass(frozen=True)
class Lemma:
    """The symbols of the closed-form gradients at one input: unit norm, no bias, E and P frozen."""

    θ: Parameters
    x: Array

    def __post_init__(self) -> None:
        θ = self.θ
        d = θ["E"].shape[1]
        z = (θ["E"][self.x] + θ["P"]).T
        z = z / np.linalg.norm(z, axis=0)
        s = np.exp(z.T @ θ["q"] / np.sqrt(d))
        s /= s.sum()
        ξ = θ["V"] @ z @ s
        size = np.linalg.norm(ξ)
        pre = θ["w"] @ ξ / size
        M = (np.eye(d) - np.outer(ξ, ξ) / size**2) / size
        found = {
            "z": z,
            "s": s,
            "ξ": ξ,
            "pre": pre,
            "Q": θ["u"].T @ np.diag(gelu_slope(pre)) @ θ["w"] @ M,
            "Δ": z @ (np.eye(len(s)) - np.outer(s, np.ones(len(s)))) / np.sqrt(d),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def logits(self) -> Array:
        ψ = self.ξ + self.θ["u"].T @ gelu(self.pre)
        return self.θ["E"] @ ψ

    def of_logit(self, e: Array) -> Parameters:
        """∇ζ_j with e = E(j), or a sum of them with e a sum of embeddings."""
        passed = (np.eye(len(self.ξ)) + self.Q.T) @ e
        slope = np.diag(gelu_slope(self.pre))
        ξ_bar = self.ξ / np.linalg.norm(self.ξ)
        return {
            "q": self.Δ @ np.diag(self.s) @ (self.θ["V"] @ self.z).T @ passed,
            "V": np.outer(passed, self.z @ self.s),
            "w": np.outer(slope @ self.θ["u"] @ e, ξ_bar),
            "u": np.outer(gelu(self.pre), e),
        }


# -- an exact head ---------------------------------------------------------------------------------------


def exact_head(h: int = 0) -> Parameters:
    """d = p = 2, k = 5, L = 12: finite weights whose ξ is a function of the number of ones among the first five.

    Behind position 5 both tokens lie on one ray, so that the norm makes them equal; before, positions are one point.
    """
    P = np.array([[0.0, 1.0]] * 5 + [[3.0, 0.0]] * 7)
    return {
        "E": np.array([[-1.0, 0.0], [1.0, 0.0]]),
        "P": P,
        "q": np.array([0.0, 6.0]),
        "V": np.eye(2),
        "c": np.zeros(2),
        "w": np.zeros((h, 2)),
        "b": np.zeros(h),
        "u": np.zeros((h, 2)),
    }


def without(θ: Parameters, *names: str) -> Parameters:
    """The same with some parameters set to zero."""
    return {name: np.zeros_like(value) if name in names else value for name, value in θ.items()}
