"""Kernels by a direct recursion over places, one pair of places at a time: an oracle for layers with windows.

A place is whatever a layer keeps apart: a position, a position of a group, a position of a layer whose weights return.
`K[i, p, j, q]` is the mean of x_α(ξ_i, p) x_α(ξ_j, q) over neurons and `T` that of their derivatives; every layer is
given as what each new place reads, a list of (label of the weights, old place).  Weights with one label are one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Reads = Sequence[Sequence[tuple[object, int]]]


@dataclass(frozen=True)
class Places:
    """The two kernels of a vector at all its places, (inputs, places, inputs, places)."""

    K: np.ndarray
    T: np.ndarray

    def through(self, reads: Reads, factor: float) -> Places:
        """factor · Σ W_label x_place with fresh trained weights: only equal labels meet."""
        seen = self.only_equal(reads, factor)
        return Places(seen.K, seen.K + seen.T)

    def only_equal(self, reads: Reads, factor: float) -> Places:
        """The same with weights that are not trained."""
        return Places(*(_met(A, reads, lambda one, other: one == other) * factor**2 for A in (self.K, self.T)))

    def summed(self, reads: Reads, factor: float = 1.0) -> Places:
        """factor · Σ x_place, weights apart: every place meets every other."""
        return Places(*(_met(A, reads, lambda one, other: True) * factor**2 for A in (self.K, self.T)))

    def relu(self) -> Places:
        """relu(x): arc-cosine kernels (Cho and Saul 2009), pair by pair."""
        K, T = np.zeros_like(self.K), np.zeros_like(self.T)
        for i, p, j, q in np.ndindex(*K.shape):
            size = math.sqrt(self.K[i, p, i, p] * self.K[j, q, j, q])
            angle = math.acos(max(-1.0, min(1.0, self.K[i, p, j, q] / size))) if size else math.pi / 2
            K[i, p, j, q] = size / (2 * math.pi) * (math.sin(angle) + (math.pi - angle) * math.cos(angle))
            T[i, p, j, q] = (math.pi - angle) / (2 * math.pi) * self.T[i, p, j, q]
        return Places(K, T)

    def attended(self, seen: np.ndarray) -> Places:
        """O A V x with softmax weights A_pq ∝ seen_iq exp K_ipiq, one matrix for queries and keys, logits over n."""
        own = np.exp(np.einsum("ipiq->ipq", self.K)) * seen[:, None, :]
        A = own / own.sum(axis=-1, keepdims=True)
        K, T = (np.einsum("ipr,irjs,jqs->ipjq", A, B, A) for B in (self.K, self.T))
        return Places(K, 2 * K + T)

    def read_out(self, factor: float) -> tuple[np.ndarray, np.ndarray]:
        """NNGP and NTK of factor · Σ_p v_p x_p, a fresh vector for each place."""
        K, T = (factor**2 * np.einsum("ipjp->ij", A) for A in (self.K, self.T))
        return K, K + T

    def read_out_sum(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """NNGP and NTK of v · Σ_p w_ip x_p, one vector."""
        K, T = (np.einsum("ip,ipjq,jq->ij", weights, A, weights) for A in (self.K, self.T))
        return K, K + T


def _met(A: np.ndarray, reads: Reads, meet: Callable[[object, object], bool]) -> np.ndarray:
    many = len(A)
    out = np.zeros((many, len(reads), many, len(reads)))
    for p, of_p in enumerate(reads):
        for q, of_q in enumerate(reads):
            for one, r in of_p:
                for other, s in of_q:
                    if meet(one, other):
                        out[:, p, :, q] += A[:, r, :, s]
    return out


def data(X: np.ndarray) -> Places:
    """Inputs (inputs, channels, places), which are not trained."""
    K = np.einsum("idp,jdq->ipjq", X, X)
    return Places(K, np.zeros_like(K))


def beside(*parts: Places) -> Places:
    """The places of several independent vectors, one part after another."""
    many, places = len(parts[0].K), [part.K.shape[1] for part in parts]
    whole = [np.zeros((many, sum(places), many, sum(places))) for _ in range(2)]
    start = 0
    for part, size in zip(parts, places, strict=True):
        end = start + size
        whole[0][:, start:end, :, start:end], whole[1][:, start:end, :, start:end] = part.K, part.T
        start = end
    return Places(*whole)


def taps(
    size: int, many: int, window: int = 3, stride: int = 1, dilation: int = 1, before: int = 0, circular: bool = False
) -> Reads:
    """What `many` places of a line read: tap τ of place a at stride · a + dilation · τ − before, if it is inside."""
    out = []
    for a in range(many):
        at = [(t, stride * a + dilation * t - before) for t in range(window)]
        out.append([(t, s % size) for t, s in at if circular or 0 <= s < size])
    return out


def square(line: Reads, size: int) -> Reads:
    """The same along both directions of an image of size × size, row by row."""
    return [[((t, u), r * size + s) for t, r in of_row for u, s in of_column] for of_row in line for of_column in line]
