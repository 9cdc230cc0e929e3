"""Numbers of a whole network at a frame: loss, accuracy, norms of gradients."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.program.network.loss import SquaredError

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked
    from tplimits.watch.making.networks import Neurons

Array = NDArray[Any]


def curves(asked: Asked, engine: Neurons) -> dict[str, Array]:
    """The curves of a frame by name."""
    f, gradients = engine.gradients()
    found = {"loss": _loss(asked.error, f), "accuracy": _accuracy(asked.error, f)}
    rest = held_out(asked.error)
    if rest is not None:
        found |= {"held-out loss": _loss(rest, f), "held-out accuracy": _accuracy(rest, f)}
    found |= {f"gradient {name}": float(numpy.sqrt((g * g).sum())) for name, g in gradients.items()}
    return {name: numpy.array(value) for name, value in found.items() if value is not None}


def _loss(error: Any, f: Array) -> float | None:
    if hasattr(error, "loss"):
        return float(error.loss(f))
    if isinstance(error, SquaredError):
        gap = f[error.train] - error.targets[error.train]
        return float((gap * gap).sum() / (2 * error.batch))
    return None


def _accuracy(error: Any, f: Array) -> float | None:
    return float(error.accuracy(f)) if hasattr(error, "accuracy") else None


def held_out(error: Any) -> Any:
    """The same loss on the inputs that are not trained on, where their targets are known; None if there are none."""
    if not isinstance(error, SquaredError) or not is_dataclass(error):
        return None
    known = numpy.isfinite(error.targets.reshape(len(error.targets), -1)).all(axis=1)
    rest = ~error.train & known
    return replace(error, train=rest) if rest.any() else None
