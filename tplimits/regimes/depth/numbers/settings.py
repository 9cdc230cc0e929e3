"""What a simulation is asked for, checked before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.given import finite_number, positive_number, seed_number, true_or_false, whole_from
from tplimits.regimes.depth.numbers.covariance import positive
from tplimits.regimes.depth.numbers.paths import MEMORY

#: without `stop`, paths are stopped at this many times the largest eigenvalue of V0
EXPLOSION = 1e6
#: more steps than this are refused
_STEPS = 1e9


@dataclass(frozen=True)
class Settings:
    """Time, step, number of paths, seed, stopping interval of eigenvalues, steps between records (0: none)."""

    T: float
    steps: int
    paths: int
    seed: int
    low: float
    high: float | None
    every: int
    halve: bool
    threads: int | None

    def grid(self, halves: int) -> tuple[int, int, float]:
        """Steps, steps between records, and the size of a step; `halves` is 2 for the coarse run of a pair."""
        double = 2 if self.halve and halves == 1 else 1
        return double * self.steps, double * self.every, self.T / (double * self.steps)

    def interval(self, V0: Array) -> tuple[float, float]:
        """Eigenvalues outside stop a path."""
        if self.high is not None:
            return self.low, self.high
        return self.low, EXPLOSION * float(numpy.linalg.eigvalsh(V0).max())


def settings(
    T: Any, dt: Any, paths: Any, seed: Any, stop: Any, record: Any, halve: Any, threads: Any, V0: Array
) -> Settings:
    """The settings, or EvaluationError with what was found and the repair.

    >>> settings(.75, .01, 4096, 0, None, False, False, None, numpy.eye(2)).steps
    75
    """
    T, dt = positive_number("T", T, EvaluationError), positive_number("dt", dt, EvaluationError)
    count = whole_from("paths", paths, 1, EvaluationError)
    if T / dt > _STEPS:
        raise EvaluationError(f"T/dt = {T / dt:.3g} steps: choose a larger dt.")
    steps = max(1, math.ceil(T / dt * (1 - 1e-12)))
    m = V0.shape[-1]
    if V0.ndim == 3 and len(V0) != count:
        raise EvaluationError(f"V0 has shape {V0.shape}; it is (m, m), or (paths, m, m) with paths={paths}.")
    low, high = _interval(stop)
    halve = true_or_false("halve", halve, EvaluationError)
    every = int(record) if isinstance(record, bool) else whole_from("record", record, 1, EvaluationError)
    _insist_on_memory(record, every, steps, count, 8 * m * m * (3 if halve else 1))
    if threads is not None:
        threads = whole_from("threads", threads, 1, EvaluationError)
    return Settings(T, steps, count, seed_number(seed, EvaluationError), low, high, every, halve, threads)


def _insist_on_memory(record: Any, every: int, steps: int, count: int, size: int) -> None:
    """Refuse what would hold more than the memory set aside; `size` in bytes of one covariance of one path."""
    if count * size > MEMORY:
        raise EvaluationError(
            f"paths={count} take {count * size / 2**30:.3g} GB, more than {MEMORY >> 30}; simulate fewer at a time, "
            "with another seed each time."
        )
    times = steps // every + 1 if every else 0
    if times * count * size > MEMORY:
        raise EvaluationError(
            f"record={record!r} holds {times} times of {count} paths, more than {MEMORY >> 30} GB; record=k keeps "
            "every k-th step."
        )


def initial(V0: Any) -> Array:
    """V0 as an array (m, m), or (paths, m, m) for a start of each path.

    Raises EvaluationError where it is not square, symmetric, finite and positive semidefinite.
    """
    V = positive(V0, "V0")
    if V.ndim > 3 or len(V) == 0:
        raise EvaluationError(f"V0 has shape {V.shape}; it is (m, m), or (paths, m, m).")
    return (V + numpy.swapaxes(V, -1, -2)) / 2


def _interval(stop: Any) -> tuple[float, float | None]:
    """Bounds of the eigenvalues from a radius or a pair."""
    if stop is None:
        return 0.0, None
    if isinstance(stop, (tuple, list)):
        if len(stop) != 2:
            raise EvaluationError(f"stop={shown(stop)}: give a radius, or (low, high) for the eigenvalues.")
        low = finite_number("stop", 0 if stop[0] is None else stop[0], EvaluationError)
        high = math.inf if stop[1] in (None, math.inf) else finite_number("stop", stop[1], EvaluationError)
        if 0 <= low < high:
            return low, high
        raise EvaluationError(f"stop={stop!r}: give (low, high) with 0 ≤ low < high.")
    return 0.0, positive_number("stop", stop, EvaluationError)
