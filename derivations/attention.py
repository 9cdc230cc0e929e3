"""Formulas of infinite attention (Hron et al. 2020) in NumPy, as what the derivations 14 to 17 are compared with.

Blocks of two batches of inputs have the shape (inputs, inputs′, tokens, tokens′), as `evaluate` gives them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def inputs(seed: int, many: int, tokens: int, d: int = 4) -> Array:
    """Inputs (many, tokens, d) with entries of variance 1/d."""
    return np.random.default_rng(seed).standard_normal((many, tokens, d)) / d**0.5


def gram(X: Array, Y: Array) -> Array:
    """Inner products of tokens."""
    return np.einsum("iad,jbd->ijab", X, Y)


def own(block: Array) -> Array:
    """The blocks of each input with itself, (inputs, tokens, tokens)."""
    return np.einsum("iiab->iab", block)


def softmax(G: Array) -> Array:
    """Along the last axis."""
    e = np.exp(G - G.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def arc_cosine(u: Array, c: Array, w: Array) -> tuple[Array, Array]:
    """E relu relu and E relu′ relu′ for variances u, w and covariance c."""
    m = np.sqrt(u * w)
    ρ = np.clip(c / m, -1, 1)
    return m / (2 * np.pi) * (np.sqrt(1 - ρ**2) + ρ * (np.pi - np.arccos(ρ))), (np.pi - np.arccos(ρ)) / (2 * np.pi)


def arc_sine(u: Array, c: Array, w: Array) -> tuple[Array, Array]:
    """E |·||·| and E sign sign."""
    m = np.sqrt(u * w)
    ρ = np.clip(c / m, -1, 1)
    return 2 * m / np.pi * (np.sqrt(1 - ρ**2) + ρ * np.arcsin(ρ)), 2 / np.pi * np.arcsin(ρ)


def product(u: Array, c: Array, w: Array) -> tuple[Array, Array]:
    """E of identity logits."""
    return c + 0 * u * w, np.ones_like(c + 0 * u * w)


def diagonals(X: Array, Y: Array) -> tuple[Array, Array]:
    """Squared lengths of tokens, to be set against gram(X, Y)."""
    return (X**2).sum(axis=-1)[:, None, :, None], (Y**2).sum(axis=-1)[None, :, None, :]


def relu_features(X: Array, Y: Array) -> tuple[Array, Array]:
    """Kernels κ̃, Θ̃ of relu(U ξ), U trained."""
    K = gram(X, Y)
    first, slope = arc_cosine(diagonals(X, Y)[0], K, diagonals(X, Y)[1])
    return first, slope * K


def between(weights: Array, block: Array, weights2: Array) -> Array:
    """ζ(x) A ζ(x′)ᵀ for all pairs."""
    return np.einsum("iac,ijcd,jbd->ijab", weights, block, weights2)


def random_logits(P: Array, own1: Array, own2: Array, moments: Callable) -> tuple[Callable, Callable]:
    """𝒵[A] and 𝒯[A, M] of an entrywise ζ; own1 and own2 are the blocks of each input with itself."""
    u, w = np.einsum("iaa->ia", own1), np.einsum("jbb->jb", own2)
    c = P[:, :, :, :, None, None] * P[:, :, None, None, :, :]  # i j a b c d: keys c of x, d of x′
    first = u[:, None, :, None, None, None] * u[:, None, None, None, :, None]
    second = w[None, :, None, :, None, None] * w[None, :, None, None, None, :]
    E0, E1 = moments(first, c, second)
    return (
        lambda A: np.einsum("ijcd,ijabcd->ijab", A, E0),
        lambda A, M: np.einsum("ijcd,ijabcd->ijab", A * M, E1),
    )


def decay(s: int) -> Array:
    """Covariance of structured positions."""
    at = np.arange(1, s + 1) / s
    return np.exp(-3 * (at[:, None] - at[None, :]) ** 2)
