"""Error signals of a step, with its batch, on inputs that are followed by probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError, shown
from tplimits.program.network.batches import Batches
from tplimits.program.network.loss import error_signal
from tplimits.program.network.losses import Loss

Array = NDArray[Any]


def rows_at(error: Any, batches: Batches | None, t: int, count: int) -> Array | None:
    """The inputs that step t is made of, with repetitions; None stands for all of them, once."""
    if not isinstance(error, Loss):
        return None
    rows = error.rows_at(t, batches)
    return None if batches is None and len(rows) == count else rows


def refuse_no_batches(error: Any, batches: Any, inputs: int) -> None:
    """EvaluationError for batches of what has none, and for a schedule that gives none."""
    if batches is None:
        return
    if not isinstance(error, Loss):
        raise EvaluationError(
            "batches=…: a batch needs a loss that is a mean over inputs: tp.squared_error(y) or "
            "tp.cross_entropy(labels), not a function of all outputs."
        )
    if not isinstance(batches, Batches):
        raise EvaluationError(f"batches={shown(batches, 60)}: give tp.batches(size), or None for all inputs.")
    error.rows_at(0, batches)


@dataclass(frozen=True)
class Signal:
    """χ of step t on the first `count` inputs; 0 on those that follow, which are looked at and not trained on."""

    error: Any
    batches: Batches | None
    count: int

    def __call__(self, f: Array, t: int) -> Array:
        """χ in the shape of the outputs."""
        found, own = numpy.zeros_like(f), f[: self.count]
        rows = rows_at(self.error, self.batches, t, self.count)
        if rows is None:
            found[: self.count] = error_signal(self.error)(own, t)
        else:
            numpy.add.at(found, rows, error_signal(self.error.batch(rows))(own[rows], t))
        return found

    @property
    def whole(self) -> Signal:
        """The same without batches."""
        return Signal(self.error, None, self.count)
