"""The loop over paths and steps of state and tangent, compiled once for all joint SDEs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from tplimits.numbers.jit import njit
from tplimits.numbers.native import called
from tplimits.regimes.depth.numbers import matrices, moves, normals, products
from tplimits.regimes.depth.numbers.batch import count, taken
from tplimits.regimes.depth.tangent import steps


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
    gaussians = numpy.empty(isotropic + count(noise.symmetric, size))
    more, state = numpy.empty(gaussians.shape[0]), numpy.empty(normals.SIZE, numpy.uint64)
    for path in range(W.shape[0]):
        S = W[path]
        normals.start(noise.streams[path], state)
        ends.stopped[path], ends.clipped[path], total = -1, 0, 0.0
        steps.corner(S, step.V)
        if matrices.is_outside(step.V, ends.low, ends.high, small):
            ends.stopped[path] = 0
        else:
            if move.alike:
                total -= steps.rescaled(S, B, Bt)
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
                for i in range(noise.symmetric.shape[0]):
                    moves.response(B, Bt, blocks, gaussians[start:], noise.symmetric[i], R, spare, other)
                    steps.blocks(R, step.R[4 * i], step.R[4 * i + 1], step.R[4 * i + 2], step.R[4 * i + 3])
                    start += taken(noise.symmetric[i], size)
                steps.blocks(S, step.V, step.C, Ct, step.D)
                moves.kernels(step.V, move.rooted, step.d, step.s, step.N)
                if move.moved:
                    steps.moved_kernels(step.V, step.C, step.D, step.A, step.B, step.r)
                called(step.address, m, place)
                steps.joined(step.DV, step.DC, step.DD, step.X, step.Y, added, factor)
                ends.clipped[path] += moves.multiply_and_add(
                    S, added, move.added, factor, move.factored, K, noisy, B, Bt, blocks, spare, other, fresh
                )
                if matrices.is_finite(fresh):
                    products.copy(fresh, S)
                    if move.alike:
                        total -= steps.rescaled(S, B, Bt)
                    steps.corner(S, step.V)
                    if matrices.is_outside(step.V, ends.low, ends.high, small):
                        ends.stopped[path] = k
                else:
                    ends.stopped[path] = k
            if ends.every > 0 and k % ends.every == 0:
                products.copy(S, ends.history[path, k // ends.every])
                logs[path, k // ends.every] = total
        logs[path, logs.shape[1] - 1] = total
