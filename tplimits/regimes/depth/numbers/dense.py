"""Paths whose noise comes from a root of Σ itself: slow, and for any Σ, also where no structured root was found.

A step costs an eigensystem of Σ, m(m + 1)/2 to a side, O(m⁶), where the structured root needs one Cholesky factor of V.
Steps are those of Euler: V + b h + √h Σ^(1/2) g, the symmetric root, negative eigenvalues of V dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from sympy import Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.roots import composed, spectrum
from tplimits.progress import Progress, reporting
from tplimits.regimes.depth.numbers import covariance, normals
from tplimits.regimes.depth.numbers.paths import Paths, ended

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.numbers.settings import Settings

#: entries of Σ^(αβ,δω) in memory at once
_ENTRIES = 1 << 24
#: a negative eigenvalue of Σ is rounding below this part of its trace
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Dense:
    """An SDE at given constants."""

    limit: BlockLimit
    values: Mapping[Symbol, float]

    def coefficients(self, V: Array) -> tuple[Array, Array]:
        """b (paths, m, m) and Σ (paths, P, P) over pairs α ≤ β."""
        a, b = numpy.triu_indices(V.shape[-1])
        drift = covariance.contracted(self.limit.drift, V, self.values, self.limit.arrays, 2)
        full = covariance.contracted(self.limit.diffusion, V, self.values, self.limit.arrays, 4)
        return drift, full[:, a[:, None], b[:, None], a[None, :], b[None, :]]

    def step(self, V: Array, h: float, gaussians: Array) -> tuple[Array, NDArray[numpy.bool_]]:
        """V one step on, NaN where it is too large for numbers, and where negative eigenvalues were dropped.

        Raises EvaluationError where Σ is not positive.
        """
        with numpy.errstate(over="ignore", invalid="ignore"):
            drift, diffusion = self.coefficients(V)
            finite = numpy.isfinite(drift).all(axis=(1, 2)) & numpy.isfinite(diffusion).all(axis=(1, 2))
        found, clipped = numpy.full(V.shape, numpy.nan), numpy.zeros(len(V), dtype=bool)
        if not finite.any():
            return found, clipped
        noise = numpy.zeros((int(finite.sum()), *V.shape[1:]))
        a, b = numpy.triu_indices(V.shape[-1])
        # one normal for each pair α ≤ β: the noise is symmetric, and Σ over all m² pairs would be singular
        noise[:, a, b] = noise[:, b, a] = (_roots(diffusion[finite]) @ gaussians[finite][..., None])[..., 0]
        moved = V[finite] + h * drift[finite] + numpy.sqrt(h) * noise
        # the drift is symmetric up to the order of its sums only
        values, vectors = spectrum(moved)
        negative = values[:, 0] < 0
        kept = numpy.where(negative[:, None, None], composed(values, vectors), moved)
        found[finite], clipped[finite] = kept, negative
        return found, clipped

    def run(self, V0: Array, settings: Settings, halves: int, progress: Progress) -> Paths:
        """The paths; `halves` is 2 for the coarse run of a pair with the same noise."""
        count, m = settings.paths, V0.shape[-1]
        V = numpy.ascontiguousarray(numpy.broadcast_to(V0, (count, m, m))).copy()
        steps, every, h = settings.grid(halves)
        history = numpy.empty((count, steps // every + 1 if every else 0, m, m))
        stopped, clipped = numpy.full(count, -1), numpy.zeros(count, dtype=numpy.int64)
        states = numpy.empty((count, normals.SIZE), dtype=numpy.uint64)
        for stream, state in zip(normals.streams(settings.seed, count), states, strict=True):
            normals.start(stream, state)
        # the full tensor Σ^(αβ,δω) is held before its pairs are taken
        at_once = max(1, min(count, _ENTRIES // m**4))
        gaussians, spare = numpy.empty((count, m * (m + 1) // 2)), numpy.empty(m * (m + 1) // 2)

        def step(first: int, V: Array, going: NDArray[numpy.int64]) -> tuple[Array, NDArray[numpy.bool_]]:
            # a stopped path draws nothing; each has its own stream, so that no other one moves
            for path in first + going:
                normals.draw(states[path], halves, gaussians[path], spare)
            return self.step(V[going], h, gaussians[first + going])

        with reporting(progress) as report:
            report.plan(count, "paths")
            for start in range(0, count, at_once):
                part = slice(start, start + at_once)
                chunk = V[part], history[part], stopped[part], clipped[part]
                advance(partial(step, start), *chunk, settings.interval(V0), steps, every)
                report.advance(len(V[part]))
        return ended(V, settings.T, h, "dense", stopped, clipped, settings.seed, history, every)


def advance(
    step: Callable[[Array, NDArray[numpy.int64]], tuple[Array, NDArray[numpy.bool_]]],
    V: Array,
    history: Array,
    stopped: NDArray[numpy.int64],
    clipped: NDArray[numpy.int64],
    interval: tuple[float, float],
    steps: int,
    every: int,
) -> None:
    """All steps of some paths, in place; `step` gives those of some of them one step on, and which were clipped."""
    stopped[_outside(V, interval)] = 0
    for at in range(steps + 1):
        going = numpy.flatnonzero(stopped < 0)
        if at and going.size:
            moved, dropped = step(V, going)
            finite = numpy.isfinite(moved).all(axis=(1, 2))
            # a path that leaves the numbers stays at the last V that was one
            V[going[finite]] = moved[finite]
            clipped[going] += dropped
            stopped[going[~finite]] = at
            stopped[going[finite][_outside(moved[finite], interval)]] = at
        if every and at % every == 0:
            history[:, at // every] = V


def _roots(diffusion: Array) -> Array:
    """Symmetric roots; EvaluationError where a matrix is not positive."""
    values, vectors = spectrum(diffusion)
    # beyond rounding a negative eigenvalue is no noise: clipping it would be the law of another SDE
    if (values[:, 0] < -_ROUNDING * numpy.abs(values).sum(axis=1)).any():
        raise EvaluationError(
            f"Σ is not positive: it has the eigenvalue {float(values[:, 0].min()):.6g} at a V of a path; there is no "
            "such noise at these constants."
        )
    return composed(numpy.sqrt(values.clip(0.0)), vectors)


def _outside(V: Array, interval: tuple[float, float]) -> NDArray[numpy.bool_]:
    values = numpy.linalg.eigvalsh(V)
    low, high = interval
    return numpy.asarray((values[:, -1] > high) | ((values[:, 0] < low) if low > 0 else False))
