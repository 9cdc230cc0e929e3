"""V of blocks without noise whose drift holds means over Gaussian scalars: an ordinary differential equation.

Steps are those of Heun, or of Euler where asked for; the same points stand for the Gaussian scalars in every step, so
that what is solved is a smooth equation near the true one.  All paths from one V0 are one path: the mean of those that
each of several scramblings of the points has, whose spread is its error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from sympy import Symbol

from tplimits.arrays import Array
from tplimits.numbers.roots import composed, spectrum
from tplimits.progress import Progress, reporting
from tplimits.regimes.depth.numbers.dense import advance
from tplimits.regimes.depth.numbers.paths import REPLICATES, Paths, ended
from tplimits.regimes.depth.numbers.weights import Drift

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.numbers.settings import Settings


@dataclass(frozen=True)
class Ordinary:
    """An equation at given constants."""

    limit: BlockLimit
    values: Mapping[Symbol, float]
    method: str

    def run(self, V0: Array, settings: Settings, halves: int, progress: Progress) -> Paths:
        """The paths; `halves` is 2 for the coarse run of a pair."""
        count, m = settings.paths, V0.shape[-1]
        steps, every, h = settings.grid(halves)
        starts, place = numpy.unique(V0.reshape(-1, m, m), axis=0, return_inverse=True)
        place = numpy.broadcast_to(place.reshape(-1), (count,)) if len(starts) == 1 else place.reshape(-1)
        drift = Drift(self.limit, self.values, m, quick=True)
        each = REPLICATES if drift.is_drawn else 1
        ends = numpy.repeat(starts, each, axis=0)
        history = numpy.empty((len(ends), steps // every + 1 if every else 0, m, m))
        stopped, clipped = numpy.full(len(ends), -1), numpy.zeros(len(ends), dtype=numpy.int64)

        def step(first: int, V: Array, going: NDArray[numpy.int64]) -> tuple[Array, NDArray[numpy.bool_]]:
            every_one = (_positive(self._moved(drift, (first + k) % each, V[k], h)) for k in going)
            moved, dropped = zip(*every_one, strict=True)
            return numpy.array(moved), numpy.array(dropped)

        with reporting(progress) as report:
            report.plan(len(ends) * steps, "steps")
            for k in range(len(ends)):
                part = slice(k, k + 1)
                chunk = ends[part], history[part], stopped[part], clipped[part]
                advance(partial(step, k), *chunk, settings.interval(V0), steps, every)
                report.advance(steps)
        parts = ends.reshape(len(starts), each, m, m)
        # a path is stopped where one of its scramblings is
        halted = numpy.where(stopped < 0, steps + 1, stopped).reshape(-1, each).min(axis=1)
        found = ended(
            parts.mean(axis=1)[place],
            settings.T,
            h,
            self.method,
            numpy.where(halted > steps, -1, halted)[place],
            clipped.reshape(-1, each).max(axis=1)[place],
            settings.seed,
            history.reshape(len(starts), each, *history.shape[1:]).mean(axis=1)[place],
            every,
        )
        return replace(found, scrambled=numpy.swapaxes(parts[place], 0, 1)) if each > 1 else found

    def _moved(self, drift: Drift, replicate: int, V: Array, h: float) -> Array:
        with numpy.errstate(over="ignore", invalid="ignore", divide="ignore"):
            first = drift.of_replicate(V, replicate)
            if self.method == "euler" or not numpy.isfinite(first).all():
                return V + h * first
            ahead, _ = _positive(V + h * first)
            return V + h / 2 * (first + drift.of_replicate(ahead, replicate))


def _positive(V: Array) -> tuple[Array, bool]:
    """V without negative eigenvalues, and whether it had some beyond rounding."""
    if not numpy.isfinite(V).all():
        return V, False
    values, vectors = spectrum(V)
    if values[0] >= 0:
        return (V + V.T) / 2, False
    return composed(values, vectors), bool(values[0] < -1e-12 * values[-1])
