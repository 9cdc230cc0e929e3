"""The loop over paths and steps of state and tangent, compiled once for all joint SDEs.

The state is the covariance of 2m vectors, x and then δx.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy

from tplimits.numbers.jit import njit
from tplimits.numbers.native import called
from tplimits.regimes.depth.algebra import folded
from tplimits.regimes.depth.numbers import matrices, moves, normals, products
from tplimits.regimes.depth.numbers.batch import count, taken
from tplimits.regimes.depth.numbers.moves import polar

_first, _both = njit(folded.first_moved), njit(folded.both_moved)


@njit(nogil=True, error_model="numpy")
def quarters(joint: Any, first: Any, upper: Any, lower: Any, second: Any) -> None:
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


class JointStep(NamedTuple):
    """The compiled step, the addresses it takes, its arrays that the loop fills or reads, and its responses."""

    address: int
    table: Any
    R: Any
    V: Any
    C: Any
    D: Any
    d: Any
    s: Any
    N: Any
    A: Any
    B: Any
    r: Any
    DV: Any
    DC: Any
    DD: Any
    X: Any
    Y: Any


class JointMove(NamedTuple):
    """Whether a step needs s and N, their derivatives, adds, multiplies; whether tangents stay as large as states."""

    rooted: bool
    moved: bool
    added: bool
    factored: bool
    alike: bool


@njit(nogil=True, error_model="numpy")
def batch(W: Any, step_count: int, noise: Any, step: Any, move: Any, ends: Any, logs: Any) -> None:
    """Paths from joint covariances W (paths × 2 token × 2 token), which are moved in place."""
    size = W.shape[1]
    m = size // 2
    Ct, small = numpy.empty((m, m)), numpy.empty((m, m))
    added, factor = numpy.zeros((size, size)), numpy.zeros((size, size))
    K, B, Bt = numpy.zeros((size, size)), numpy.empty((size, size)), numpy.empty((size, size))
    spare, other, fresh = numpy.empty((size, size)), numpy.empty((size, size)), numpy.empty((size, size))
    R = numpy.empty((size, size))
    noisy, centre, place = noise.spread > 0.0, numpy.empty(size), step.table.ctypes.data
    moves.centres(noise.spread, centre)
    isotropic = size * (size + 1) // 2 if noisy else 0
    gaussians = numpy.empty(isotropic + count(noise.laws, size))
    more, state = numpy.empty(gaussians.shape[0]), numpy.empty(normals.SIZE, numpy.uint64)
    for path in range(W.shape[0]):
        S = W[path]
        normals.start(noise.streams[path], state)
        ends.stopped[path], ends.clipped[path], total = -1, 0, 0.0
        products.copy(S, step.V)
        if matrices.is_outside(step.V, ends.low, ends.high, small):
            ends.stopped[path] = 0
        else:
            if move.alike:
                total -= rescaled(S, B, Bt)
            if not matrices.root(S, B, spare):
                ends.clipped[path] += 1
        products.transpose(B, Bt)
        if ends.every > 0:
            products.copy(S, ends.history[path, 0])
            logs[path, 0] = total
        for k in range(1, step_count + 1):
            if ends.stopped[path] < 0:
                normals.draw(state, noise.halves, gaussians, more)
                blocks = products.diagonal_blocks(B)
                if noisy:
                    moves.triangular_noise(gaussians, noise.spread, centre, K)
                start = isotropic
                for i in range(noise.laws.shape[0]):
                    moves.response(B, Bt, blocks, gaussians[start:], noise.laws[i], R, spare, other)
                    quarters(R, step.R[4 * i], step.R[4 * i + 1], step.R[4 * i + 2], step.R[4 * i + 3])
                    start += taken(noise.laws[i], size)
                quarters(S, step.V, step.C, Ct, step.D)
                moves.kernels(step.V, move.rooted, step.d, step.s, step.N)
                if move.moved:
                    moved_kernels(step.V, step.C, step.D, step.A, step.B, step.r)
                called(step.address, m, place)
                joined(step.DV, step.DC, step.DD, step.X, step.Y, added, factor)
                ends.clipped[path] += moves.multiply_and_add(
                    S, added, move.added, factor, move.factored, K, noisy, B, Bt, blocks, spare, other, fresh
                )
                if matrices.is_finite(fresh):
                    products.copy(fresh, S)
                    if move.alike:
                        total -= rescaled(S, B, Bt)
                    products.copy(S, step.V)
                    if matrices.is_outside(step.V, ends.low, ends.high, small):
                        ends.stopped[path] = k
                else:
                    ends.stopped[path] = k
            if ends.every > 0 and k % ends.every == 0:
                products.copy(S, ends.history[path, k // ends.every])
                logs[path, k // ends.every] = total
        logs[path, logs.shape[1] - 1] = total
