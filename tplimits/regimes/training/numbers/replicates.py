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
from tplimits.numbers.number import standard_error
from tplimits.numbers.threads import one_thread
from tplimits.progress import Progress, reporting
from tplimits.regimes.training.numbers import checkpoint
from tplimits.regimes.training.numbers.rounding import ROUNDING

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tplimits.numbers.columns import Array, State
    from tplimits.regimes.training.numbers.settings import Settings

Begin = Callable[[int], checkpoint.Replicate]
#: a mean of many replicates is zero if it is within so many of its standard errors
ERRORS = 4.0
#: how the rounding of what is seen is called beside it
ROUNDED = "the rounding of {}"
#: so many replicates tell a mean from zero well enough: two alone know its error within a factor of ten, no better
ENOUGH = 8
#: error signals are lost where one replicate's are off by more than this part of the largest ones so far
_LOST = 0.5


def may_vanish(values: Array, rounding: Array) -> Array:
    """Where a mean over replicates, the first axis, is not told from zero: `ERRORS` of Student's errors."""
    return abs(values.mean(axis=0)) <= _bar(len(values)) * standard_error(values) + rounding.mean(axis=0)


def particles_missing(values: Array) -> float:
    """How many times as many particles would tell a mean that is as large as it is seen from zero."""
    return float((_bar(len(values)) * standard_error(values) / values.mean(axis=0)) ** 2)


def _bar(replicates: int) -> float:
    return float(scipy.special.stdtrit(replicates - 1, scipy.special.ndtr(ERRORS)))


def refuse_lost(runs: Array, signals: Callable[[int], Array], steps: int) -> None:
    """EvaluationError where error signals are known at the start, and no longer at a later step that moves by them.

    Each replicate is trained by its own signals: where these have little in common, the replicates are other runs from
    there on, and neither their mean nor its standard error tells of the limit.  `runs` are the outputs of all
    replicates (replicates, steps + 1, inputs, *outputs), `signals` those of a step.
    """
    apart, path = (_size(x) for x in (runs.std(axis=0, ddof=1), runs.mean(axis=0) - runs[:, 0].mean(axis=0)))
    far, rounding = numpy.maximum.accumulate(path), ROUNDING * abs(runs).max()
    # asked only where outputs are noisy: functions of users may be slow
    for t in map(int, numpy.flatnonzero(apart[:steps] > _LOST / 4 * far[:steps] + rounding)):
        off, *sizes = _size(
            numpy.array([signals(t).std(axis=0, ddof=1), *(signals(s).mean(axis=0) for s in range(t + 1))])
        )
        if off <= _LOST * max(sizes):
            continue
        if t == 0:
            return
        raise EvaluationError(
            f"no number: error signals of step {t} are lost in noise, {off:.2g} in each replicate beside signals of "
            f"{max(sizes):.2g} at most: replicates are trained apart, and their mean is no limit. Give more particles, "
            "a smaller lr, or fewer steps."
        )


def _size(values: Array) -> Array:
    """The root of the mean square over all axes but the first."""
    found: Array = numpy.sqrt((values**2).reshape(len(values), -1).mean(axis=1))
    return found


@dataclass
class Seen:
    """Scalars that every replicate has seen, by name; more are run where few leave open whether one is zero."""

    runs: list[Mapping[str, Array]]
    more: Callable[[int], Mapping[str, Array]]

    def values(self, name: str) -> Array:
        """Those of one."""
        return numpy.array([run[name] for run in self.runs if name in run])

    def vanishing(self, name: str) -> tuple[Array, Array]:
        """The values of one, and where their mean is not told from zero."""
        while True:
            values, rounding = self.values(name), self.values(ROUNDED.format(name))
            if not values.size:
                return values, values.astype(bool)
            near = may_vanish(values, rounding)
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
