"""V of blocks without noise whose drift holds means over Gaussian scalars: an ordinary differential equation.

Steps are those of Heun, or of Euler where asked for; the same points stand for the Gaussian scalars in every step, so
that what is solved is a smooth equation near the true one.  All paths from one V0 are one path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from sympy import Symbol

from tplimits.progress import Progress, reporting
from tplimits.regimes.depth.numbers.paths import Paths, ended
from tplimits.regimes.depth.numbers.weights import Drift

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.numbers.settings import Settings

Array = NDArray[numpy.float64]


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
        drift = Drift(self.limit, self.values, m)
        history = numpy.empty((len(starts), steps // every + 1 if every else 0, m, m))
        ends, stopped, clipped = starts.copy(), numpy.full(len(starts), -1), numpy.zeros(len(starts), dtype=numpy.int64)
        with reporting(progress) as report:
            report.plan(len(starts) * steps, "steps")
            for k, V in enumerate(starts):
                stopped[k], clipped[k], ends[k] = self._path(
                    drift, V, settings.interval(V0), (steps, every, h), history[k]
                )
                report.advance(steps)
        return ended(
            ends[place],
            settings.T,
            h,
            self.method,
            stopped[place],
            clipped[place],
            settings.seed,
            history[place],
            every,
        )

    def _path(
        self, drift: Drift, V: Array, interval: tuple[float, float], grid: tuple[int, int, float], history: Array
    ) -> tuple[int, int, Array]:
        """The step at which a path was stopped or −1, steps at which V lost negative eigenvalues, and its end."""
        steps, every, h = grid
        stopped, clipped = (0 if _outside(V, interval) else -1), 0
        for step in range(steps + 1):
            if step and stopped < 0:
                moved, dropped = _positive(self._moved(drift, V, h))
                if numpy.isfinite(moved).all():
                    V, clipped = moved, clipped + dropped
                if not numpy.isfinite(moved).all() or _outside(V, interval):
                    stopped = step
            if every and step % every == 0:
                history[step // every] = V
        return stopped, clipped, V

    def _moved(self, drift: Drift, V: Array, h: float) -> Array:
        with numpy.errstate(over="ignore", invalid="ignore"):
            first = drift.at(V).value
            if self.method == "euler" or not numpy.isfinite(first).all():
                return V + h * first
            ahead, _ = _positive(V + h * first)
            return V + h / 2 * (first + drift.at(ahead).value)


def _positive(V: Array) -> tuple[Array, int]:
    """V without negative eigenvalues, and whether it had some beyond rounding."""
    if not numpy.isfinite(V).all():
        return V, 0
    values, vectors = numpy.linalg.eigh((V + V.T) / 2)
    if values[0] >= 0:
        return (V + V.T) / 2, 0
    return (vectors * values.clip(min=0.0)) @ vectors.T, int(values[0] < -1e-12 * values[-1])


def _outside(V: Array, interval: tuple[float, float]) -> bool:
    values = numpy.linalg.eigvalsh(V)
    return bool(values[-1] > interval[1] or (interval[0] > 0 and values[0] < interval[0]))
