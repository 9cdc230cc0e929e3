"""The program itself at width n: independent draws of the quantities a claim is about.

Draws come in batches.  Batch b at width n is seeded by (seed, n, b) and its size depends on the program
and n alone, so the numbers do not depend on who runs the batches or in which order.  Matrices are real
n×n matrices; generating their entries is most of the work, and one thread per processor does it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy

from tplimits.arrays import Array
from tplimits.errors import CheckError
from tplimits.law.observables import BracketObservable, Observable
from tplimits.numbers.threads import one_thread
from tplimits.program.nodes.evaluate import stream
from tplimits.program.nodes.execution import Execution
from tplimits.sampling.magnitude import Magnitudes, magnitudes, mean_squares, product_mean_square, read
from tplimits.sampling.work import batch_size, work

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.progress import Report


#: batches a worker runs at a time, and tasks that wait at most
_BATCHES_PER_TASK = 4
_WAITING = 64
#: threads of this process when no executor is given, at most: beyond that memory is the limit
_MOST_THREADS = 8


@dataclass(frozen=True)
class Draws:
    """Draws of some observables at one width.

    `values` has shape (draws, observables); `squares`, of the same length, is for each observable the mean
    square of what it averages (`tplimits.sampling.magnitude`), already averaged over draws.
    """

    n: int
    values: Array
    squares: Array

    @property
    def scale(self) -> Array:
        """The root mean square of what each observable averages."""
        return numpy.sqrt(self.squares)

    def joined(self, others: Sequence[Draws]) -> Draws:
        """These draws and more of the same width."""
        parts = (self, *others)
        values = numpy.concatenate([d.values for d in parts])
        weights = numpy.array([[len(d.values) / len(values)] for d in parts])
        # squares are means over draws already, and batches may differ in size
        return Draws(self.n, values, (weights * numpy.stack([d.squares for d in parts])).sum(axis=0))


class Source(Protocol):
    """What draws come from: batches of one row a draw and one column a label, at any width."""

    @property
    def program(self) -> Program:
        """What is run."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What the columns are."""

    def prepare(self) -> None:
        """What is the same for every batch, found once."""

    def batch(self, n: int) -> int:
        """Draws in a full batch at width n."""

    def work(self, n: int) -> float:
        """The work of one draw at width n."""

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""


@dataclass(frozen=True)
class Sampler:
    """Runs a program at finite widths and reads observables off it."""

    program: Program
    observables: tuple[Observable, ...]
    seed: int = 0
    ratios: Mapping[str, float] | None = None
    given: Mapping[str, Any] | None = None

    def batch(self, n: int) -> int:
        """Draws in a full batch at width n."""
        return batch_size(self.program, n, self.ratios)

    def work(self, n: int) -> float:
        """The work of one draw at width n."""
        return work(self.program, n, self.ratios)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the observables."""
        return tuple(o.label for o in self.observables)

    def prepare(self) -> None:
        """The magnitudes, once: copies of the sampler go to other processes."""
        _ = self._magnitudes

    @cached_property
    def _magnitudes(self) -> Magnitudes:
        return magnitudes(self.program, self.observables)

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""
        return self.observed(self.executed(n, index, draws), n)

    def executed(self, n: int, index: int, draws: int) -> Execution:
        """The networks of a batch."""
        return Execution(self.program, n, draws, stream(self.seed, n, index), self.ratios, self.given).run()

    def observed(self, execution: Execution, n: int) -> Draws:
        """What is read off networks of a width."""
        # what is not finite is told by `_finite`, with the observable and the width
        with numpy.errstate(all="ignore"):
            squares = mean_squares(execution, self._magnitudes)
            read_off = [_observe(execution, o, squares) for o in self.observables]
        values = numpy.stack([v for v, _ in read_off], axis=1)
        return Draws(n, values, numpy.array([s.mean() for _, s in read_off]))


@dataclass(frozen=True)
class Derived:
    """Draws that are made of those of another source; `labels` and `run` are its own."""

    inner: Source

    @property
    def program(self) -> Program:
        """What is run."""
        return self.inner.program

    def prepare(self) -> None:
        """What the other source needs before."""
        self.inner.prepare()

    def batch(self, n: int) -> int:
        """Draws in a full batch at width n."""
        return self.inner.batch(n)

    def work(self, n: int) -> float:
        """The work of one draw at width n."""
        return self.inner.work(n)


def _observe(execution: Execution, observable: Observable, squares: Mapping[Any, Array]) -> tuple[Array, Array]:
    """The value of an observable in each draw, and the mean square of what it averages."""
    if isinstance(observable, BracketObservable):
        left, right = read(execution, observable.left), read(execution, observable.right)
        return numpy.einsum("dn,dn->d", left, right) / left.shape[-1], product_mean_square(execution, observable)
    return read(execution, observable.key), squares[observable.key]


@dataclass(frozen=True)
class Task:
    """Some batches of one width, for one worker: (batch number, draws) pairs."""

    n: int
    batches: tuple[tuple[int, int], ...]


def tasks(sampler: Source, n: int, first: int, draws: int) -> list[Task]:
    """`draws` draws at width n, from batch number `first` on; the last batch may be smaller."""
    size = sampler.batch(n)
    sizes = [min(size, draws - start) for start in range(0, draws, size)]
    batches = [(first + i, s) for i, s in enumerate(sizes)]
    return [Task(n, tuple(batches[i : i + _BATCHES_PER_TASK])) for i in range(0, len(batches), _BATCHES_PER_TASK)]


def _run_task(sampler: Source, task: Task, caller: int) -> list[Draws]:
    """What a worker does; a worker in another process keeps its linear algebra to one thread itself."""
    # limits of BLAS are of the process: threads of the caller are under the one that `sample` has set
    # workers already use every processor, and sums keep their order
    with nullcontext() if os.getpid() == caller else one_thread():
        return [sampler.run(task.n, index, draws) for index, draws in task.batches]


def sample(
    sampler: Source, wanted: Mapping[int, tuple[int, int]], executor: Executor | None, report: Report
) -> dict[int, Draws]:
    """Draws at several widths; `wanted` maps a width to (number of its first batch, draws).

    Raises CheckError, naming the observable and the width, where a draw is not finite.
    """
    sampler.prepare()
    cost = {n: sampler.work(n) for n in wanted}
    jobs = [t for n, (first, draws) in wanted.items() for t in tasks(sampler, n, first, draws)]
    found: dict[int, list[Draws]] = {n: [] for n in wanted}
    with one_thread(), _workers(executor) as workers:
        for task, batches in zip(jobs, _in_order(workers, sampler, jobs), strict=True):
            for batch in batches:
                _finite(sampler, batch)
                report.advance(cost[task.n] * len(batch.values))
            found[task.n] += batches
    return {n: batches[0].joined(batches[1:]) for n, batches in found.items()}


@contextmanager
def _workers(executor: Executor | None) -> Iterator[Executor]:
    """The executor, or threads of this process: NumPy makes normals without holding Python's lock."""
    if executor is not None:
        yield executor
        return
    threads = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1), thread_name_prefix="tplimits-check")
    try:
        yield threads
    finally:
        # an error or an interrupt must not wait for what is queued
        threads.shutdown(cancel_futures=True)


def _in_order(workers: Executor, sampler: Source, jobs: Sequence[Task]) -> Iterator[list[Draws]]:
    """The results of all tasks in their order, with a bounded number waiting."""
    waiting: deque[Future[list[Draws]]] = deque()
    try:
        for job in jobs:
            # results are taken in the order of tasks, so that sums over batches do not depend on who was first
            waiting.append(workers.submit(_run_task, sampler, job, os.getpid()))
            # a bound: results that wait hold all their draws in memory
            if len(waiting) >= _WAITING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _finite(sampler: Source, batch: Draws) -> None:
    finite = numpy.isfinite(batch.values)
    whole = finite.all(axis=0) & numpy.isfinite(batch.squares)
    if whole.all():
        return
    column = int(numpy.argmin(whole))
    bad = int((~finite[:, column]).sum()) or len(finite)  # squares are means over all draws
    raise CheckError(
        f"`{sampler.labels[column]}` is not finite in {bad} of {len(batch.values)} draws at width "
        f"n = {batch.n}: look for a division by zero, a logarithm or root of a negative number, or an overflow in "
        f"`{sampler.program.name}`; if only small widths fail, start from a larger one."
    )
