"""Networks of shaped layers with gradients by hand, in NumPy alone: what laws along depth are held against.

Nothing here is of the package.  States are (draws, m, n); weights of a layer are drawn when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

T = lambda a: np.swapaxes(a, -1, -2)  # noqa: E731


def _size(gradient, columns):
    """|∂L/∂θ|² of W = θ/√columns, summed over heads."""
    return (gradient**2).reshape(len(gradient), -1).sum(axis=1) / columns


def _drawn(rng, draws, *shape):
    return rng.standard_normal((draws, *shape), dtype=np.float32) / np.float32(shape[-1] ** 0.5)


@dataclass
class Perceptron:
    """x ← k σ(W x), σ with slopes 1 + c/√n."""

    n: int
    c_plus: float
    c_minus: float

    def __post_init__(self):
        self.slopes = tuple(1 + c / self.n**0.5 for c in (self.c_plus, self.c_minus))
        self.k = (sum(s**2 for s in self.slopes) / 2) ** -0.5

    def weights(self, rng, draws):
        return (_drawn(rng, draws, self.n, self.n),)

    def activated(self, x, W):
        h = x @ T(W)
        return h, h * self.slope(h)

    def slope(self, h):
        return np.where(h > 0, *self.slopes).astype(h.dtype)

    def forward(self, x, weights):
        return self.k * self.activated(x, *weights)[1]

    def backward(self, x, weights, g):
        (W,) = weights
        back = self.k * g * self.slope(x @ T(W))
        return back @ W, {"W": _size(T(back) @ x, self.n)}


@dataclass
class ReluBranch(Perceptron):
    """x ← λ x + γ k U σ(W x)."""

    γ: float = 0.5

    def weights(self, rng, draws):
        return tuple(_drawn(rng, draws, self.n, self.n) for _ in range(2))

    def forward(self, x, weights):
        W, U = weights
        return (1 - self.γ**2) ** 0.5 * x + self.γ * self.k * self.activated(x, W)[1] @ T(U)

    def backward(self, x, weights, g):
        W, U = weights
        h, φ = self.activated(x, W)
        branch = self.γ * self.k * g
        back = (branch @ U) * self.slope(h)
        sizes = {"W1": _size(T(back) @ x, self.n), "W2": _size(T(branch) @ φ, self.n)}
        return (1 - self.γ**2) ** 0.5 * g + back @ W, sizes


@dataclass
class Attention:
    """x ← λ x + γ (1 + A − P) V x: A a softmax over keys of a mask, P its mean; with heads, Σ_h U_h (…)/√heads."""

    n: int
    γ: float
    τ0: float
    mask: Any = None
    heads: int = 0
    k: int = 0
    keys: int = field(init=False)

    def __post_init__(self):
        self.keys = self.k or self.n

    def weights(self, rng, draws):
        h, k, n = self.heads or 1, self.keys, self.n
        values = k if self.heads else n
        found = [_drawn(rng, draws, h, rows, n) for rows in (k, k, values)]
        return (*found, _drawn(rng, draws, h, n, k)) if self.heads else tuple(found)

    def attention(self, x, Q, K, V):
        q, k, v = (x[:, None] @ T(W) for W in (Q, K, V))
        scale = 1 / (self.τ0 * (self.keys * self.n) ** 0.5)
        seen = np.ones((x.shape[1],) * 2) if self.mask is None else self.mask
        A = seen * np.exp(scale * q @ T(k))
        A /= A.sum(axis=-1, keepdims=True)
        mixed = np.eye(x.shape[1]) + A - seen / seen.sum(axis=-1, keepdims=True)
        return q, k, v, scale, A.astype(x.dtype), mixed.astype(x.dtype)

    def forward(self, x, weights):
        _, _, v, _, _, mixed = self.attention(x, *weights[:3])
        o = mixed @ v
        o = (o @ T(weights[3])).sum(axis=1) / self.heads**0.5 if self.heads else o[:, 0]
        return (1 - self.γ**2) ** 0.5 * x + self.γ * o

    def backward(self, x, weights, g):
        q, k, v, scale, A, mixed = self.attention(x, *weights[:3])
        back, sizes = self.γ * g[:, None], {}
        if self.heads:
            back = back / self.heads**0.5
            sizes["WO"] = _size(T(back) @ (mixed @ v), self.keys)
            back = back @ weights[3]
        of_A = back @ T(v)
        of_Y = scale * A * (of_A - (A * of_A).sum(axis=-1, keepdims=True))
        each = {"WQ": of_Y @ k, "WK": T(of_Y) @ q, "WV": T(mixed) @ back}
        sizes |= {name: _size(T(b) @ x[:, None], self.n) for name, b in each.items()}
        through = sum((b @ W).sum(axis=1) for b, W in zip(each.values(), weights, strict=False))
        return (1 - self.γ**2) ** 0.5 * g + through, sizes


def states(V, draws, n, rng):
    """x with x xᵀ/n = V exactly, in directions that are uniform."""
    values, vectors = np.linalg.eigh(np.asarray(V, dtype=float))
    z = rng.standard_normal((draws, len(values), n))
    z = np.linalg.solve(np.linalg.cholesky(z @ T(z) / n), z)
    return (vectors * np.sqrt(np.maximum(values, 0.0)) @ z).astype(np.float32)


def log_gradients(parts, V, layers, draws, at=(0,), readout=0, seed=0, batch=50):
    """log(|∂L/∂θ|²/n) by (name, layer), tokens of the input as "input[a]", all weights over n more as ("total", 0).

    ("end", 0) is log(|x|²/n) of the token 0 behind the last layer.

    L is the token `readout` of the end read by a standard normal vector, every token where it is None, or half the
    squared norm of the end for "features", then over n more.
    """
    found: dict[tuple[str, int], list] = {}
    n = parts[0].n
    for first in range(0, draws, batch):
        count, rng = min(batch, draws - first), np.random.default_rng([seed, first])
        x, passed, total = states(V, count, n, rng), [], 0.0
        for layer in range(layers):
            for part in parts:
                passed.append((layer, part, x, part.weights(rng, count)))
                x = part.forward(x, passed[-1][-1])
        found.setdefault(("end", 0), []).append((x[:, 0] ** 2).sum(axis=-1))
        g = x / n**0.5 if isinstance(readout, str) else rng.standard_normal(x.shape, dtype=np.float32)
        if isinstance(readout, int):
            g[:, [a for a in range(x.shape[1]) if a != readout]] = 0
        for k in reversed(range(len(passed))):
            layer, part, x, weights = passed[k]
            g, sizes = part.backward(x, weights, g)
            total = total + sum(sizes.values()) / n
            if layer in at:
                if k % len(parts) == 0:
                    sizes |= {f"input[{a}]": (g[:, a] ** 2).sum(axis=-1) for a in range(x.shape[1])}
                for name, size in sizes.items():
                    found.setdefault((name, layer), []).append(size)
        found.setdefault(("total", 0), []).append(total)
    with np.errstate(divide="ignore"):
        return {key: np.log(np.concatenate(sizes) / n) for key, sizes in found.items()}


def attention_moves(W, n, draws, γ, τ0, mask, rng):
    """n times the change of (V, C, D), as (draws, 3, m, m), in one layer from the joint covariance W of x and δx.

    Queries and keys are rows of matrices times W, normal with this covariance; the mean over the value matrix is taken
    exactly, and each draw is the mean of two with opposite queries, so that what is odd in the logits is gone.
    """
    m, root = len(W) // 2, np.linalg.cholesky(W)
    V, C, D = W[:m, :m], W[:m, m:], W[m:, m:]
    q, k = (root @ rng.standard_normal((draws, 2 * m, n)) for _ in range(2))
    P = mask / mask.sum(axis=1, keepdims=True)
    total = 0.0
    for sign in (1.0, -1.0):
        Y = sign * (q @ T(k)) / (τ0 * n)
        A = mask * np.exp(Y[:, :m, :m])
        A /= A.sum(axis=-1, keepdims=True)
        δY = Y[:, m:, :m] + Y[:, :m, m:]
        δA = A * (δY - (A * δY).sum(axis=-1, keepdims=True))
        B = np.eye(m) + A - P
        moved = [B @ V @ T(B), B @ C @ T(B) + B @ V @ T(δA)]
        across = B @ C.T @ T(δA)
        moved.append(B @ D @ T(B) + across + T(across) + δA @ V @ T(δA))
        total = total + n * γ**2 * (np.stack(moved, axis=1) - np.array([V, C, D])) / 2
    return total
