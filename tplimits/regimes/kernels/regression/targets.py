"""What is given beside inputs: targets, noise, times; read and checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.given import real_array, real_number, several, whole_number


@dataclass(frozen=True)
class Targets:
    """Targets as a matrix, a row for each (input, axes) pair and a column for each independent output."""

    matrix: Array
    single: bool

    def folded(self, found: Array, outputs: Sequence[int]) -> Array:
        """Predictions (…, rows, columns) in the shape of targets: (…, N, *axes) and a last axis if these have one.

        Raises EvaluationError where they are no finite numbers.
        """
        if not numpy.isfinite(found).all():
            raise EvaluationError("the targets are too large: predictions leave the range of double precision.")
        shape = (*found.shape[:-2], -1, *outputs)
        return found[..., 0].reshape(shape) if self.single else found.reshape(*shape, found.shape[-1])


def read_targets(y: Any, many: int, outputs: Sequence[int]) -> Targets:
    """Targets (N, *axes) or (N, *axes, independent outputs) of N inputs."""
    array = real_array("y", y)
    shape = (many, *outputs)
    if array.shape[: len(shape)] != shape or array.ndim > len(shape) + 1 or not array.size:
        plain = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        wide = ", ".join((*map(str, shape), "outputs"))
        raise EvaluationError(
            f"y has shape {array.shape}; {many} inputs need ({plain}), or ({wide}) of independent outputs."
        )
    return Targets(array.reshape(math.prod(shape), -1), array.ndim == len(shape))


def read_noise(noise: Any) -> float:
    """A variance: a finite number, 0 or more."""
    found = real_number(noise)
    if found is not None and 0 <= found < math.inf:
        return found
    raise EvaluationError(f"noise={shown(noise)}: the variance of the noise is a finite number, 0 or more.")


def read_momentum(momentum: Any) -> float:
    """A number from 0 to below 1."""
    found = real_number(momentum)
    if found is None or not 0 <= found < 1:
        raise EvaluationError(f"momentum={shown(momentum)}: a momentum is a number from 0 to below 1.")
    return found


@dataclass(frozen=True)
class Schedule:
    """When training is looked at: `moments` of gradient flow, or numbers of steps with learning rate `lr`."""

    moments: tuple[float, ...]
    lr: float | None
    single: bool


def read_schedule(time: Any, steps: Any, lr: Any) -> Schedule:
    """Either `time`, ∞ by default, or `steps` with `lr`; several of them as a sequence."""
    if steps is None and lr is None:
        moments, single = _several(math.inf if time is None else time)
        if all(m is not None and m >= 0 for m in map(real_number, moments)) and moments:
            return Schedule(tuple(map(float, moments)), None, single)
        raise EvaluationError(
            f"time={shown(time)}: a time is a number, 0 or more, or math.inf; several are a list of them."
        )
    if time is not None or steps is None or lr is None:
        raise EvaluationError("give time=… of gradient flow, or steps=… with lr=… of gradient descent.")
    rate = real_number(lr)
    if rate is None or not 0 < rate < math.inf:
        raise EvaluationError(f"lr={shown(lr)}: a learning rate is a positive number.")
    moments, single = _several(steps)
    counts = [whole_number(m) for m in moments]
    if not counts or any(c is None or c < 0 for c in counts):
        raise EvaluationError(
            f"steps={shown(steps)}: a number of steps is a whole number, 0 or more; several are a list of them."
        )
    return Schedule(tuple(float(c) for c in counts if c is not None), rate, single)


def _several(value: Any) -> tuple[list[Any], bool]:
    if isinstance(value, (list, tuple, range)) or (isinstance(value, numpy.ndarray) and value.ndim == 1):
        return list(several(value) or ()), False
    return [value], True
