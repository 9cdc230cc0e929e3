"""Replicates of a training run, one after the other or by an executor, and whether a mean over them is zero.

The numbers are the same whoever runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy
import scipy.special

from tplimits.errors import EvaluationError
from tplimits.numbers.threads import one_thread
from tplimits.progress import Progress, reporting
from tplimits.regimes.training.numbers import checkpoint

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tplimits.numbers.columns import Array, State
    from tplimits.regimes.training.numbers.settings import Settings

Begin = Callable[[int], checkpoint.Replicate]
#: a mean of many replicates is zero if it is within so many of its standard errors, or below what rounding leaves
ERRORS, ROUNDING = 4.0, 1e-12
#: so many replicates tell a mean from zero well enough: two alone know its error within a factor of ten, no better
ENOUGH = 8


def standard_error(values: Array) -> Array:
    """Of the mean over the first axis."""
    return values.std(axis=0, ddof=1) / numpy.sqrt(len(values))


def may_vanish(values: Array) -> Array:
    """Where a mean over replicates, the first axis, is not told from zero: `ERRORS` of Student's errors."""
    level = scipy.special.ndtr(ERRORS)
    bar = float(scipy.special.stdtrit(len(values) - 1, level))
    return abs(values.mean(axis=0)) <= bar * standard_error(values) + ROUNDING


@dataclass
class Seen:
    """Scalars that every replicate has seen, by name; more are run where few leave open whether one is zero."""

    runs: list[Mapping[str, Array]]
    more: Callable[[int], Mapping[str, Array]]

    def vanishing(self, name: str) -> tuple[Array, Array]:
        """The values of one, and where their mean is not told from zero."""
        while True:
            values = numpy.array([run[name] for run in self.runs if name in run])
            if not values.size:
                return values, values.astype(bool)
            near = may_vanish(values)
            if not near.any() or not values[:, near].any() or len(self.runs) >= ENOUGH:
                return values, near
            # twice as many: most are told apart by four
            self.runs += [self.more(number) for number in range(len(self.runs), min(2 * len(self.runs), ENOUGH))]


@contextmanager
def quietly() -> Iterator[None]:
    """One thread of linear algebra, the same numbers on every machine; numbers that overflow are refused by name."""
    with one_thread(), numpy.errstate(all="ignore"):
        yield


def whole(begin: Begin, number: int, told: Callable[[int], None] = lambda done: None) -> State:
    """What one replicate finds from beginning to end."""
    with quietly():
        replicate = begin(number)
        while not replicate.finished():
            replicate.advance()
            told(1)
    return replicate.result()


def replicated(
    asked: Settings, begin: Begin, times: int, known: Callable[[], str], executor: Executor | None, progress: Progress
) -> list[State]:
    """What all replicates find, each in so many `times`; `known` is the fingerprint of the run for its checkpoint."""
    with reporting(progress) as report:
        report.plan(asked.replicates * times, "training")
        try:
            if asked.checkpoint is not None:
                with quietly():
                    return list(checkpoint.kept(asked.checkpoint, known(), asked.replicates, begin, report.advance))
            if executor is None:
                return [whole(begin, number, report.advance) for number in range(asked.replicates)]
            found = []
            for one in executor.map(partial(whole, begin), range(asked.replicates)):
                found.append(one)
                report.advance(times)
            return found
        except MemoryError:
            raise EvaluationError(
                f"particles={asked.particles}, block={asked.block}: they do not fit into memory; give fewer."
            ) from None
