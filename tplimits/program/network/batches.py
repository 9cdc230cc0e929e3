"""Which inputs a step sees: a schedule that networks of all widths, all seeds and the limit share."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import seed_number, whole_from, word_of

_SAMPLERS = ("epochs", "draws")


@dataclass(frozen=True)
class Batches:
    """Batches of `size` inputs, the same for the same seed; made by `batches`."""

    size: int
    seed: int = 0
    sampler: str = "epochs"

    def indices(self, t: int, inputs: int) -> NDArray[numpy.int64]:
        """The numbers of the inputs of step t, out of `inputs`; steps do not depend on one another."""
        t, inputs = whole_from("t", t, 0, EvaluationError), whole_from("inputs", inputs, 1, EvaluationError)
        return self.of_steps(t, 1, inputs)[0]

    def of_steps(self, t: int, steps: int, inputs: int) -> NDArray[numpy.int64]:
        """Those of the steps t, t + 1, …, (steps, size)."""
        if self.sampler == "draws":
            rngs = (numpy.random.default_rng([self.seed, s]) for s in range(t, t + steps))
            return numpy.stack([rng.integers(0, inputs, self.size) for rng in rngs])
        if self.size > inputs:
            raise EvaluationError(
                f"batches(size={self.size}): there are {inputs} training inputs; give a smaller size, or None for all."
            )
        each = inputs // self.size
        first, last = t // each, (t + steps - 1) // each
        orders = [_order(self.seed, epoch, inputs)[: each * self.size] for epoch in range(first, last + 1)]
        found = numpy.concatenate(orders) if len(orders) > 1 else orders[0]
        return found.reshape(-1, self.size)[t - first * each :][:steps]


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
    word_of("sampler", sampler, _SAMPLERS, EvaluationError)
    return Batches(whole_from("size", size, 1, EvaluationError), seed_number(seed, EvaluationError), sampler)
