"""The loop over paths and steps, compiled once: what differs between SDEs is behind the address of one function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.numbers.jit import njit
from tplimits.numbers.native import called
from tplimits.regimes.depth.algebra.products import SYMMETRIC, VECTOR
from tplimits.regimes.depth.numbers import matrices, moves, normals, products
from tplimits.regimes.depth.numbers.source import OF_STATE, Generated

#: arrays of one index among what a step has; all others have two
_VECTORS = frozenset({"d", "s", "r"})
_STATE = OF_STATE.index("V")


class Room(NamedTuple):
    """What one step reads and fills: shaped arrays by name, the responses, and all of it flat, in the step's order.

    Compiled code knows the arrays by their addresses alone: whoever calls it holds on to this.
    """

    own: dict[str, Array]
    responses: Array
    flat: tuple[Array, ...]

    @property
    def addresses(self) -> NDArray[numpy.int64]:
        """Where the arrays lie."""
        return numpy.array([a.ctypes.data for a in self.flat], dtype=numpy.int64)


def room(source: Generated, m: int, coefficients: Array, given: Sequence[Array]) -> Room:
    """Room for a step of m tokens; `given` are the constant arrays and the tables of the means."""
    own = {name: aligned((m,) if name in _VECTORS else (m, m)) for name in source.own}
    own["c"] = coefficients
    responses = aligned((max(len(source.responses), 1), m, m))
    between = [aligned((m**rank,)) for rank in source.between]
    every = (*own.values(), *responses[: len(source.responses)], *given, *between)
    return Room(own, responses, tuple(a.reshape(-1) for a in every))


def aligned(shape: tuple[int, ...]) -> Array:
    """Zeros from the start of a cache line: vector registers that are read across two take twice as long."""
    size = math.prod(shape)
    words = numpy.zeros(size + 7)
    first = -(words.ctypes.data // 8) % 8
    return words[first : first + size].reshape(shape)


class Noise(NamedTuple):
    """A stream of random bits for each path, normals added up for one step, √(s h/2), and the laws of the R."""

    streams: Any
    halves: int
    spread: float
    laws: Any


class Step(NamedTuple):
    """The compiled step, the addresses it takes, those of its arrays that the loop fills or reads, and room."""

    address: int
    table: Any
    R: Any
    d: Any
    s: Any
    N: Any
    D: Any
    X: Any
    #: six matrices for what is between, zero at the start
    work: Any


class Move(NamedTuple):
    """Whether steps are of Euler's method, need s and N, add, and multiply."""

    is_euler: bool
    rooted: bool
    added: bool
    factored: bool


class Ends(NamedTuple):
    """Where paths stop, how often they are written down, and what of them is."""

    low: float
    high: float
    every: int
    history: Any
    stopped: Any
    clipped: Any


@njit(nogil=True, error_model="numpy")
def taken(law: int, size: int) -> int:
    """How many normals a response takes."""
    return size if law == VECTOR else size * (size + 1) // 2 if law == SYMMETRIC else size * size


@njit(nogil=True, error_model="numpy")
def count(laws: Any, size: int) -> int:
    """The normals of all responses."""
    total = 0
    for law in laws:
        total += taken(law, size)
    return total


@njit(nogil=True, error_model="numpy")
def batch(V: Any, steps: int, noise: Any, step: Any, move: Any, ends: Any) -> None:
    """Paths from V (paths × token × token), which are moved in place."""
    m = V.shape[1]
    K, B, Bt = step.work[0], step.work[1], step.work[2]
    spare, other, fresh = step.work[3], step.work[4], step.work[5]
    # fields of tuples are looked up once: each time counts references
    d, s, N, D, X, R, table, laws = step.d, step.s, step.N, step.D, step.X, step.R, step.table, noise.laws
    address, place, is_euler, rooted = step.address, table.ctypes.data, move.is_euler, move.rooted
    stopped, clipped, low, high = ends.stopped, ends.clipped, ends.low, ends.high
    noisy, centre = noise.spread > 0.0, numpy.empty(m)
    moves.centres(noise.spread, centre)
    isotropic = m * (m + 1) // 2 if noisy else 0
    total = isotropic + count(laws, m)
    words = numpy.empty(total + 7)
    # those of responses from the start of a cache line
    first = -(words.ctypes.data // 8 + isotropic) % 8
    gaussians = words[first : first + total]
    more, state = numpy.empty(gaussians.shape[0]), numpy.empty(normals.SIZE, numpy.uint64)
    for path in range(V.shape[0]):
        W = V[path]
        table[_STATE] = W.ctypes.data
        normals.start(noise.streams[path], state)
        stopped[path], clipped[path] = -1, 0
        if matrices.is_outside(W, low, high, spare):
            stopped[path] = 0
        elif not matrices.root(W, B, spare):
            clipped[path] += 1
        products.transpose(B, Bt)
        if ends.every > 0:
            products.copy(W, ends.history[path, 0])
        for k in range(1, steps + 1):
            if stopped[path] < 0:
                normals.draw(state, noise.halves, gaussians, more)
                if noisy and is_euler:
                    moves.symmetric_noise(gaussians, noise.spread, K)
                elif noisy:
                    moves.triangular_noise(gaussians, noise.spread, centre, K)
                start = isotropic
                for i in range(laws.shape[0]):
                    moves.response(B, Bt, m, gaussians[start:], laws[i], R[i], spare, other)
                    start += taken(laws[i], m)
                moves.kernels(W, rooted, d, s, N)
                called(address, m, place)
                if is_euler:
                    clipped[path] += moves.add(W, D, K, noisy, B, Bt, spare, other, fresh)
                else:
                    clipped[path] += moves.multiply_and_add(
                        W, D, move.added, X, move.factored, K, noisy, B, Bt, m, spare, other, fresh
                    )
                if matrices.is_finite(fresh):
                    products.copy(fresh, W)
                    if matrices.is_outside(W, low, high, spare):
                        stopped[path] = k
                else:
                    stopped[path] = k
            if ends.every > 0 and k % ends.every == 0:
                products.copy(W, ends.history[path, k // ends.every])
