"""What a recording needs of a network in training, or of a limit: the base of all engines."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError
from tplimits.program.network.losses import Loss

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked


class Engine(ABC):
    """A run at a step: it goes on, it is looked at, it can be left and taken up again, bit for bit.

    Made from what is asked, a width and a seed.
    """

    #: whether leaving it costs as much as the whole run
    in_one_go: ClassVar[bool] = False
    asked: Asked

    @abstractmethod
    def __init__(self, asked: Asked, width: float, seed: int) -> None: ...

    @abstractmethod
    def advance(self, step: int) -> None:
        """Go on to a step; EvaluationError, with the step, where training diverges."""

    @abstractmethod
    def outputs(self) -> Array:
        """f on all inputs."""

    def norms(self) -> dict[str, float]:
        """Norms of the gradients of the loss on all inputs by parameter, and other numbers that the engine knows."""
        return {}

    def parameters(self) -> dict[str, Array]:
        """Parameters as they stand in the program, or samples of kets; none where there are only values."""
        return {}

    def values(self) -> dict[str, Array]:
        """Values on the probes that do not follow from parameters."""
        return {}

    def on_probes(self) -> Array | None:
        """f on the probes where it does not follow from what is kept of the parameters."""
        return None

    def finish(self) -> None:  # noqa: B027 - most have nothing to judge
        """After the last frame: what can be judged only then."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """All that is needed to go on."""

    @abstractmethod
    def restore(self, state: Mapping[str, Array]) -> None:
        """Back to what `state` gave."""

    def curves(self, step: int) -> dict[str, Array]:
        """Numbers of the whole network at a frame by name: loss, accuracy, norms of gradients."""
        f, error = self.outputs(), self.asked.error
        found: dict[str, float | None] = {}
        if isinstance(error, Loss):
            found = _of_loss(error, f, "")
            rest = error.held_out if not error.train.all() else None
            if rest is not None:
                found |= _of_loss(rest, f, "held-out ")
        found |= self.norms()
        numbers = {name: value for name, value in found.items() if value is not None}
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise EvaluationError(f"`{name}` is not finite at step {step}: training diverges. Give a smaller lr.")
        return {name: numpy.array(value, dtype=numpy.float64) for name, value in numbers.items()}


def _of_loss(loss: Loss, f: Array, what: str) -> dict[str, float | None]:
    return {f"{what}loss": loss.loss(f), f"{what}accuracy": loss.accuracy(f)}
