"""Replicates of a training run, one after the other or by an executor: the same numbers whoever runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy

from tplimits.errors import EvaluationError
from tplimits.numbers.threads import one_thread
from tplimits.progress import Progress, reporting
from tplimits.regimes.training.numbers import checkpoint

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tplimits.numbers.columns import State
    from tplimits.regimes.training.numbers.settings import Settings

Begin = Callable[[int], checkpoint.Replicate]


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
