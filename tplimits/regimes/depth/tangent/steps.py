"""What a compiled step of state and tangent needs beside one of the state: blocks of the joint covariance, and scale.

The state is the covariance of 2m vectors, x and then δx.
"""

from __future__ import annotations

import math
from typing import Any

from tplimits.numbers.jit import njit
from tplimits.regimes.depth.algebra import folded
from tplimits.regimes.depth.numbers.moves import polar

_first, _both = njit(folded.first_moved), njit(folded.both_moved)


@njit(nogil=True, error_model="numpy")
def blocks(joint: Any, first: Any, upper: Any, lower: Any, second: Any) -> None:
    """The blocks of a matrix of 2m rows: (x, x), (x, δx), (δx, x) and (δx, δx)."""
    m = first.shape[0]
    for a in range(m):
        for b in range(m):
            first[a, b] = joint[a, b]
            upper[a, b] = joint[a, m + b]
            lower[a, b] = joint[m + a, b]
            second[a, b] = joint[m + a, m + b]


@njit(nogil=True, error_model="numpy")
def joined(V: Any, C: Any, D: Any, X: Any, Y: Any, added: Any, factor: Any) -> None:
    """What is added, (V, C; Cᵀ, D), and what multiplies, (X, 0; Y, X)."""
    m = V.shape[0]
    for a in range(m):
        for b in range(m):
            added[a, b] = V[a, b]
            added[a, m + b] = C[a, b]
            added[m + b, a] = C[a, b]
            added[m + a, m + b] = D[a, b]
            factor[a, b] = X[a, b]
            factor[a, m + b] = 0.0
            factor[m + a, b] = Y[a, b]
            factor[m + a, m + b] = X[a, b]


@njit(nogil=True, error_model="numpy")
def moved_kernels(V: Any, C: Any, D: Any, A: Any, B: Any, r: Any) -> None:
    """A and B, derivatives of N (`folded`), and 1/√V_aa, as in `tplimits.regimes.depth.tangent.covariance`."""
    m = V.shape[0]
    for a in range(m):
        r[a] = 1.0 / math.sqrt(V[a, a]) if V[a, a] > 0.0 else 0.0
    for a in range(m):
        for b in range(m):
            A[a, b] = 0.0
            if a == b:
                B[a, b] = 0.0
                continue
            scale = math.sqrt(V[a, a] * V[b, b])
            rho, sine, angle = polar(V, a, b, scale)
            if not sine > 0.0:
                B[a, b] = 0.0
                continue
            A[a, b] = _first(scale, sine, angle, V[a, a], C[a, a], C[b, a])
            moved = (C[a, a], C[a, b], C[b, a], C[b, b])
            B[a, b] = _both((scale, rho, sine, angle), V[a, b], V[a, a], V[b, b], moved, D[a, b])


@njit(nogil=True, error_model="numpy")
def rescaled(joint: Any, B: Any, Bt: Any) -> float:
    """The tangent at the size of the state, whose law is the same at every size, and the log of what D was multiplied.

    A perturbation far smaller than the state would be rounding beside it.
    """
    size = joint.shape[0]
    m = size // 2
    state, tangent = 0.0, 0.0
    for a in range(m):
        state += joint[a, a]
        tangent += joint[m + a, m + a]
    if not (tangent > 0.0 and state > 0.0):
        return 0.0
    by = math.sqrt(state / tangent)
    for a in range(m):
        for b in range(size):
            joint[m + a, b] *= by
            B[m + a, b] *= by
    for a in range(size):
        for b in range(m):
            joint[a, m + b] *= by
            Bt[a, m + b] *= by
    return 2.0 * math.log(by)


@njit(nogil=True, error_model="numpy")
def corner(joint: Any, out: Any) -> None:
    """The covariance of the state."""
    m = out.shape[0]
    for a in range(m):
        for b in range(m):
            out[a, b] = joint[a, b]
