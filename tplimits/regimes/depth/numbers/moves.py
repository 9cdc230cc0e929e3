"""One step of a covariance: what is added, what multiplies, and isotropic noise from a root of V.

Isotropic noise √(s/2) L (G + Gᵀ) Lᵀ dB comes as K = √(s h/2) (G + Gᵀ) where it is added.  Where it multiplies it is
L S Sᵀ Lᵀ with a lower triangular S like the one Bartlett gives for a Wishart matrix, S Sᵀ of mean 1 and covariance that
of K up to O(h²): S_ij = √(s h) g below the diagonal, S_ii = √(1 − s h (i + ½)) + √(s h/2) g on it, i = 0, 1, …
"""

from __future__ import annotations

import math
from typing import Any

from tplimits.numbers.jit import njit
from tplimits.regimes.depth.algebra import folded
from tplimits.regimes.depth.algebra.products import SYMMETRIC, VECTOR
from tplimits.regimes.depth.numbers.matrices import root
from tplimits.regimes.depth.numbers.products import copy, multiply, transpose

_folded = njit(folded.of)


@njit(nogil=True, error_model="numpy")
def polar(V: Any, a: int, b: int, scale: float) -> tuple[float, float, float]:
    """The correlation of two tokens with √(V_aa V_bb) = scale, √(1 − ρ²) and arccos ρ."""
    # as in `covariance.polar`, of which this is the compiled twin
    rho = min(max(V[a, b] / scale, -1.0), 1.0) if scale > 0.0 else 1.0
    sine = math.sqrt((1.0 - rho) * (1.0 + rho))
    return rho, sine, math.atan2(sine, rho)


@njit(nogil=True, error_model="numpy", forceinline=True)
def kernels(V: Any, rooted: bool, d: Any, s: Any, N: Any) -> None:
    """d_a = V_aa, and if asked for s_a = √V_aa and N_ab (`folded`)."""
    m = V.shape[0]
    for a in range(m):
        d[a] = V[a, a]
    if not rooted:
        return
    for a in range(m):
        s[a] = math.sqrt(max(V[a, a], 0.0))
    for a in range(m):
        N[a, a] = 0.0
        # the diagonal is zero exactly
        for b in range(a):
            scale = s[a] * s[b]
            rho, sine, angle = polar(V, a, b, scale)
            N[a, b] = N[b, a] = _folded(scale, rho, sine, angle)


@njit(nogil=True, error_model="numpy", forceinline=True)
def symmetric_noise(normals: Any, scale: float, K: Any) -> None:
    """scale · (G + Gᵀ) from m(m + 1)/2 normals."""
    # G_ij + G_ji is one normal of variance 2: half of the draws are saved
    beside = scale * 1.4142135623730951
    for i in range(K.shape[0]):
        row = normals[i * (i + 1) // 2 :]  # as in `triangular_noise`
        for j in range(i):
            K[i, j] = K[j, i] = beside * row[j]
        # G_ii + G_ii: twice one normal, not the sum of two
        K[i, i] = 2.0 * scale * row[i]


@njit(nogil=True, error_model="numpy")
def centres(scale: float, centre: Any) -> None:
    """√(1 − s h (i + ½)) with scale = √(s h/2)."""
    for i in range(centre.shape[0]):
        # with i entries of variance s h left of the diagonal and s h/2 on it, E (S Sᵀ)_ii = 1; s h m ≤ 1 is asked of
        # steps
        centre[i] = math.sqrt(max(1.0 - (2 * i + 1) * scale * scale, 0.0))


@njit(nogil=True, error_model="numpy", forceinline=True)
def triangular_noise(normals: Any, scale: float, centre: Any, S: Any) -> None:
    """S, with scale = √(s h/2), on and below the diagonal."""
    below = scale * 1.4142135623730951
    for i in range(S.shape[0]):
        row = normals[i * (i + 1) // 2 :]  # a slice, so that the compiler knows the entries to be adjacent
        for j in range(i):
            S[i, j] = below * row[j]
        S[i, i] = centre[i] + scale * row[i]


@njit(nogil=True, error_model="numpy", forceinline=True)
def response(B: Any, Bt: Any, blocks: int, normals: Any, law: int, R: Any, spare: Any, other: Any) -> None:
    """R = B G Bᵀ with B Bᵀ = V and Bt = Bᵀ, or B (G + Gᵀ) Bᵀ/√2; B is zero above diagonal blocks of `blocks` rows.

    A vector R = B g is a first row.
    """
    m = B.shape[0]
    if law == VECTOR:
        for i in range(m):
            total = 0.0
            for j in range(m):
                total += B[i, j] * normals[j]
            R[0, i] = total
        return
    if law == SYMMETRIC:
        symmetric_noise(normals, 0.7071067811865476, other)
        multiply(B, other, blocks, m, spare)
    else:
        multiply(B, normals[: m * m].reshape(m, m), blocks, m, spare)
    multiply(spare, Bt, m, -blocks, R)


@njit(nogil=True, error_model="numpy")
def add(V: Any, D: Any, K: Any, noisy: bool, B: Any, Bt: Any, spare: Any, other: Any, fresh: Any) -> int:
    """Euler: V + D + B K Bᵀ with B Bᵀ = V and Bt = Bᵀ on entry, of the new V on return.

    1 where V had to be made positive.
    """
    m = V.shape[0]
    for i in range(m):
        for j in range(m):
            fresh[i, j] = V[i, j] + D[i, j]
    if noisy:
        multiply(B, K, m, m, spare)
        multiply(spare, Bt, m, m, other)
        for i in range(m):
            for j in range(m):
                # symmetric to the last bit, as the factor of the next step takes it to be
                fresh[i, j] += 0.5 * (other[i, j] + other[j, i])
    # the factor is for the noise of the next step; that it exists is the check for this one
    positive = root(fresh, B, spare)
    transpose(B, Bt)
    if positive:
        return 0
    # V is taken to be what its factor says: without the negative eigenvalues that `root` has dropped
    multiply(B, Bt, m, m, fresh)
    return 1


@njit(nogil=True, error_model="numpy")
def multiply_and_add(
    V: Any,
    D: Any,
    added: bool,
    X: Any,
    factored: bool,
    S: Any,
    noisy: bool,
    B: Any,
    Bt: Any,
    blocks: int,
    spare: Any,
    other: Any,
    fresh: Any,
) -> int:
    """(1 + X) W S Sᵀ Wᵀ (1 + X)ᵀ with W Wᵀ = V + D: positive whatever X and S are.

    B Bᵀ = V and Bt = Bᵀ on entry, of the new V on return; 1 where V + D had to be made positive.  X is zero above
    diagonal blocks of `blocks` rows, and B where it was and nothing had to be made positive.
    """
    m = V.shape[0]
    clipped, held = 0, blocks
    # what is added goes inside the root, so that all that multiplies acts on a positive matrix
    if added:
        for i in range(m):
            for j in range(m):
                fresh[i, j] = V[i, j] + D[i, j]
        # from here on `held` is the size of the diagonal blocks above which the left factor is zero: 1 for a triangular
        # one
        held = 1
        if not root(fresh, B, spare):
            clipped, held = 1, m
    if noisy:
        # S is lower triangular, so that the blocks of B stay as they are
        multiply(B, S, held, 1, other)
    else:
        copy(B, other)
    if factored:
        for i in range(m):
            # 1 + X; the loops that fill X write all of it at the next step
            X[i, i] += 1.0
        multiply(X, other, blocks, held, B)
        held = max(blocks, held)
    else:
        copy(other, B)
    transpose(B, Bt)
    multiply(B, Bt, held, -held, fresh)
    return clipped
