"""Which inputs a step sees: a schedule that networks of all widths, all seeds and the limit share."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import seed_number, whole_from

_SAMPLERS = ("epochs", "draws")


@dataclass(frozen=True)
class Batches:
    """Batches of `size` inputs, the same for the same seed; made by `batches`."""

    size: int
    seed: int = 0
    sampler: str = "epochs"

    def indices(self, t: int, inputs: int) -> NDArray[numpy.int64]:
        """The numbers of the inputs of step t, out of `inputs`; steps do not depend on one another."""
        if self.sampler == "draws":
            return numpy.random.default_rng([self.seed, t]).integers(0, inputs, self.size)
        if self.size > inputs:
            raise EvaluationError(
                f"batches(size={self.size}): there are {inputs} training inputs; give a smaller size, or None for all."
            )
        epoch, number = divmod(t, inputs // self.size)
        return _order(self.seed, epoch, inputs)[number * self.size : (number + 1) * self.size]


@functools.lru_cache(maxsize=64)
def _order(seed: int, epoch: int, inputs: int) -> NDArray[numpy.int64]:
    """All inputs in the order of one epoch."""
    found = numpy.random.default_rng([seed, epoch]).permutation(inputs)
    found.setflags(write=False)
    return found


def batches(size: Any, seed: Any = 0, sampler: str = "epochs") -> Batches:
    """Batches of `size` training inputs for every step, the same for networks of all widths and for the limit.

    "epochs" goes through all inputs in a new order each time; what fills no batch at the end of an epoch is left out.
    "draws" draws every batch afresh, with replacement.

    >>> found = batches(2)
    >>> sorted([*found.indices(0, 4).tolist(), *found.indices(1, 4).tolist()])
    [0, 1, 2, 3]

    Raises EvaluationError for a size below 1, a seed that is none, and another sampler.
    """
    if sampler not in _SAMPLERS:
        raise EvaluationError(f"batches(sampler={sampler!r}): it is one of {', '.join(map(repr, _SAMPLERS))}.")
    return Batches(whole_from("size", size, 1, EvaluationError), seed_number(seed, EvaluationError), sampler)
