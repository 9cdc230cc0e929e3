"""What a simulation is asked for, checked before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.numeric.covariance import covariances

Array = NDArray[numpy.float64]
#: without `stop`, paths are stopped at this many times the largest eigenvalue of V0
EXPLOSION = 1e6
#: bytes of recorded covariances above which recording is refused
_MEMORY = 8 << 30


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

    def interval(self, V0: Array) -> tuple[float, float]:
        """Eigenvalues outside stop a path."""
        if self.high is not None:
            return self.low, self.high
        return self.low, EXPLOSION * float(numpy.linalg.eigvalsh(V0).max())


def settings(
    T: Any, dt: Any, paths: Any, seed: Any, stop: Any, record: Any, halve: bool, threads: Any, V0: Array
) -> Settings:
    """The settings, or EvaluationError with what was found and the repair.

    >>> settings(.75, .01, 4096, 0, None, False, False, None, numpy.eye(2)).steps
    75
    """
    T, dt = _positive("T", T), _positive("dt", dt)
    count = _whole("paths", paths, 1)
    steps = max(1, math.ceil(T / dt * (1 - 1e-12)))
    if steps > 10**9:
        raise EvaluationError(f"T/dt = {T / dt:.3g} steps: choose a larger dt.")
    m = V0.shape[-1]
    if V0.ndim == 3 and len(V0) != count:
        raise EvaluationError(f"V0 has shape {V0.shape}; it is (m, m), or (paths, m, m) with paths={paths}.")
    low, high = _interval(stop)
    every = int(record) if isinstance(record, bool) else _whole("record", record, 1)
    if every and (steps // every + 1) * count * m * m * 8 * (3 if halve else 1) > _MEMORY:
        raise EvaluationError(
            f"record={record!r} holds {steps // every + 1} times of {count} paths, more than {_MEMORY >> 30} GB; "
            "record=k keeps every k-th step."
        )
    if threads is not None:
        threads = _whole("threads", threads, 1)
    return Settings(T, steps, count, _whole("seed", seed, 0), low, high, every, bool(halve), threads)


def initial(V0: Any) -> Array:
    """V0 as an array (m, m), or (paths, m, m) for a start of each path.

    Raises EvaluationError where it is not square, symmetric, finite and positive semidefinite.
    """
    V = covariances(V0)
    if V.ndim > 3:
        raise EvaluationError(f"V0 has shape {V.shape}; it is (m, m), or (paths, m, m).")
    V = (V + numpy.swapaxes(V, -1, -2)) / 2
    smallest = numpy.linalg.eigvalsh(V)[..., 0] + 1e-10 * numpy.trace(V, axis1=-2, axis2=-1)
    if (smallest < 0).any():
        raise EvaluationError(
            f"V0 is not positive semidefinite: it has the eigenvalue {float(numpy.linalg.eigvalsh(V).min()):.6g}; a "
            "covariance X Xᵀ/n has none below zero."
        )
    return V


def _positive(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (number > 0 and math.isfinite(number)):
        raise EvaluationError(f"{name}={value!r}: give a positive, finite number.")
    return number


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, numpy.integer)) or value < least:
        raise EvaluationError(f"{name}={value!r}: give a whole number, at least {least}.")
    return int(value)


def _interval(stop: Any) -> tuple[float, float | None]:
    """Bounds of the eigenvalues from a radius or a pair."""
    if stop is None:
        return 0.0, None
    if isinstance(stop, (tuple, list)):
        if len(stop) != 2:
            raise EvaluationError(f"stop={stop!r}: give a radius, or (low, high) for the eigenvalues.")
        low, high = (0.0 if stop[0] is None else stop[0]), stop[1]
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 <= low < high:
            return float(low), float(high)
        raise EvaluationError(f"stop={stop!r}: give (low, high) with 0 ≤ low < high.")
    return 0.0, _positive("stop", stop)
