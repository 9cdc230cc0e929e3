"""Numbers of a whole network at a frame: loss, accuracy, norms of gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.network.losses import Loss

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked
    from tplimits.watch.making.engine import Engine

Array = NDArray[numpy.float64]


def curves(asked: Asked, engine: Engine, step: int) -> dict[str, Array]:
    """The curves of a frame by name."""
    f = engine.outputs()
    found: dict[str, float | None] = {}
    if isinstance(asked.error, Loss):
        found = _of_loss(asked.error, f, "")
        rest = asked.error.held_out if not asked.error.train.all() else None
        if rest is not None:
            found |= _of_loss(rest, f, "held-out ")
    found |= engine.norms()
    numbers = {name: value for name, value in found.items() if value is not None}
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise EvaluationError(f"`{name}` is not finite at step {step}: training diverges. Give a smaller lr.")
    return {name: numpy.array(value, dtype=numpy.float64) for name, value in numbers.items()}


def _of_loss(loss: Loss, f: Array, what: str) -> dict[str, float | None]:
    return {f"{what}loss": loss.loss(f), f"{what}accuracy": loss.accuracy(f)}
