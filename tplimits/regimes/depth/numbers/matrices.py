"""Small dense matrices in compiled loops: Cholesky factors, and eigenvalues by Jacobi rotations."""

from __future__ import annotations

import math
from typing import Any

from tplimits.numbers.jit import njit

#: a pivot above −PIVOT·trace counts as zero, below it the matrix as not positive
PIVOT = 1e-13
#: sweeps of Jacobi rotations; convergence is quadratic
_SWEEPS = 40

_FAST = {"contract", "reassoc", "nsz"}


@njit(nogil=True, fastmath=_FAST, error_model="numpy")
def cholesky(V: Any, shift: float, sign: float, L: Any) -> bool:
    """L Lᵀ = shift + sign·V; False where that has a negative pivot.  Pivots of the size of rounding are zero."""
    m = V.shape[0]
    trace = 0.0
    for i in range(m):
        # of absolute values: the diagonal of shift − V may cancel in the trace
        trace += abs(shift + sign * V[i, i])
    least = PIVOT * trace
    for j in range(m):
        for i in range(j):
            L[i, j] = 0.0
        pivot = shift + sign * V[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        if not pivot >= -least:  # also NaN
            return False
        root = math.sqrt(pivot) if pivot > least else 0.0
        L[j, j] = root
        inverse = 1.0 / root if root > 0.0 else 0.0
        for i in range(j + 1, m):
            entry = sign * V[i, j]
            for k in range(j):
                entry -= L[i, k] * L[j, k]
            # |V_ij|² ≤ V_ii V_jj: below a pivot that is zero the column of a positive matrix vanishes
            if root == 0.0 and abs(entry) > math.sqrt(least * abs(shift + sign * V[i, i])):
                return False
            L[i, j] = entry * inverse
    return True


@njit(nogil=True, error_model="numpy")
def eigensystem(A: Any, U: Any) -> None:
    """A = U diag Uᵀ by cyclic Jacobi rotations; the eigenvalues are left on the diagonal of A."""
    m = A.shape[0]
    for i in range(m):
        for j in range(m):
            U[i, j] = 1.0 if i == j else 0.0
    for _ in range(_SWEEPS):
        off, scale = 0.0, 0.0
        for i in range(m):
            scale += A[i, i] * A[i, i]
            for j in range(i):
                off += A[i, j] * A[i, j]
        # squares: entries off the diagonal below 1e-16 of those on it; `not` ends at NaN too
        if not off > 1e-32 * scale:
            return
        for p in range(m - 1):
            for q in range(p + 1, m):
                if A[p, q] != 0.0:
                    _rotate(A, U, p, q)


@njit(nogil=True, error_model="numpy")
def _rotate(A: Any, U: Any, p: int, q: int) -> None:
    m = A.shape[0]
    # the smaller of the two angles that clear A_pq, |t| ≤ 1: with the larger one sweeps need not converge
    angle = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
    t = 1.0 / (abs(angle) + math.sqrt(angle * angle + 1.0))
    if angle < 0.0:
        t = -t
    c = 1.0 / math.sqrt(t * t + 1.0)
    s = t * c
    for k in range(m):
        x, y = A[k, p], A[k, q]
        A[k, p], A[k, q] = c * x - s * y, s * x + c * y
    for k in range(m):
        x, y = A[p, k], A[q, k]
        A[p, k], A[q, k] = c * x - s * y, s * x + c * y
        x, y = U[k, p], U[k, q]
        U[k, p], U[k, q] = c * x - s * y, s * x + c * y


@njit(nogil=True, error_model="numpy")
def root(V: Any, B: Any, spare: Any) -> bool:
    """B Bᵀ = V, by Cholesky; where V is not positive, of V without its negative eigenvalues, and False."""
    if cholesky(V, 0.0, 1.0, B):
        return True
    m = V.shape[0]
    for i in range(m):
        for j in range(m):
            # rotations take both triangles to be equal
            spare[i, j] = 0.5 * (V[i, j] + V[j, i])
    eigensystem(spare, B)
    for j in range(m):
        # U √λ is a root as good as a triangular one; callers are told by False that it is full
        size = math.sqrt(max(spare[j, j], 0.0))
        for i in range(m):
            B[i, j] *= size
    return False


@njit(nogil=True, error_model="numpy", forceinline=True)
def is_finite(V: Any) -> bool:
    """Whether V = B Bᵀ has no entry that is infinite or NaN: its diagonal tells."""
    trace = 0.0
    for i in range(V.shape[0]):
        trace += V[i, i]
    return trace < math.inf


@njit(nogil=True, error_model="numpy")
def is_outside(V: Any, low: float, high: float, spare: Any) -> bool:
    """Whether an eigenvalue is outside [low, high]; a bound on the trace settles most cases."""
    trace = 0.0
    for i in range(V.shape[0]):
        trace += V[i, i]
    # the largest eigenvalue is at most the trace, and high − V has a factor just when none is above `high`
    if trace > high and not cholesky(V, high, -1.0, spare):
        return True
    return low > 0.0 and not cholesky(V, -low, 1.0, spare)
