"""Tiles of a Gram matrix on the workers of an executor: data sent once to each, results streamed back.

A worker keeps the job it was sent.  Asked for a tile of one that it does not know, it answers that it does not, and is
asked again with the job: so data travels once to each worker, whatever executor stands between.  Each worker has one
tile at a time, and a tile is handed on before another one begins, so that a crash costs a tile a worker at most.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numba

from tplimits.errors import EvaluationError, TplimitsError
from tplimits.numbers.threads import one_thread

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.job import Found, Job

#: tiles under way at once where an executor does not say how many workers it has
_UNKNOWN = 64
#: jobs that a worker keeps: the last ones
_KEPT = 2
#: the jobs of this process by name, and which of them began here
_JOBS: dict[str, Job] = {}
_HOME: dict[str, int] = {}


def in_turn(job: Job, missing: Sequence[int], executor: Executor | None) -> Iterator[tuple[int, Found]]:
    """The missing tiles with their numbers as they are finished, here or by the workers of an executor.

    Raises EvaluationError where a tile cannot be given, or a worker is lost, after all tiles that were finished.
    """
    with one_thread():  # the same sums on any machine; workers stand side by side
        if executor is None:
            for number in missing:
                yield number, job.tile(number)
        else:
            yield from _elsewhere(job, missing, executor)


def _elsewhere(job: Job, missing: Sequence[int], executor: Executor) -> Iterator[tuple[int, Found]]:
    name = uuid.uuid4().hex
    _JOBS[name], _HOME[name] = job, os.getpid()  # threads share it, forked workers inherit it
    waiting, running = list(reversed(missing)), dict[Any, int]()
    failed: BaseException | None = None
    try:
        _refuse_fork(executor)
        parcel, unknown = _parcel(executor, job), set[int]()
        if len(missing) > 1:
            failed = _compiled(executor, name, parcel)
        while running or (waiting and failed is None):
            if failed is None:
                failed = _sent(executor, name, parcel, waiting, unknown, running)
            for future in _finished(running):
                number = running.pop(future)
                try:
                    found = future.result()
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # of any library; all that was finished is handed on first
                    failed = failed or error
                    continue
                if found is None:
                    unknown.add(number)
                    waiting.append(number)
                else:
                    yield number, found
            if failed is not None:
                for future in [f for f in running if f.cancel()]:
                    del running[future]
        if failed is not None:
            raise failed if isinstance(failed, TplimitsError) else _lost(failed)
    finally:
        for future in running:
            future.cancel()
        _JOBS.pop(name, None)
        del _HOME[name]


def _compiled(executor: Executor, name: str, parcel: Any) -> Exception | None:
    """Let one worker compile what tiles need, so that the others find it on disk; what went wrong."""
    try:
        first = executor.submit(_begin, name, parcel)
        _finished({first: 0})
        first.result()
    except Exception as error:
        return error
    return None


def _sent(
    executor: Executor, name: str, parcel: Any, waiting: list[int], unknown: set[int], running: dict[Any, int]
) -> Exception | None:
    """Give every worker a tile; what went wrong."""
    try:
        while waiting and len(running) < _workers(executor):
            number = waiting.pop()
            job = parcel if number in unknown else None
            running[executor.submit(_tile, name, number, job)] = number
    except Exception as error:
        return error
    return None


def _finished(running: dict[Any, int]) -> list[Any]:
    """Those that have ended, at least one; futures of other libraries know only the calls of `Future`."""
    if all(isinstance(future, Future) for future in running):
        return list(wait(running, return_when=FIRST_COMPLETED).done)
    told = threading.Event()
    for future in running:
        future.add_done_callback(lambda _: told.set())
    told.wait()
    return [future for future in running if future.done()]


def _workers(executor: Any) -> int:
    """How many tiles may be under way at once."""
    client = getattr(executor, "_client", None)
    if client is not None:  # dask.distributed: workers come and go
        return max(1, sum(client.nthreads().values()))
    many = getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None)
    return many if isinstance(many, int) and many > 0 else _UNKNOWN


def _parcel(executor: Any, job: Job) -> Any:
    """The job as it is sent; dask keeps it on its workers, who pass it on to each other."""
    client = getattr(executor, "_client", None)
    return job if client is None else client.scatter(job, hash=False)


def _refuse_fork(executor: Any) -> None:
    """Refuse a process pool that would fork this process after GNU OpenMP ran in it: its workers would be killed."""
    context = getattr(executor, "_mp_context", None)
    if context is None or context.get_start_method() != "fork" or executor._processes:
        return
    try:
        layer = numba.threading_layer()
    except ValueError:  # no loop has run on several threads yet
        return
    if layer == "omp":
        raise EvaluationError(
            "executor=: this pool starts its processes by fork, and compiled loops have run in this one on threads of "
            "OpenMP, which does not survive that. Give ProcessPoolExecutor(mp_context=multiprocessing.get_context("
            '"forkserver")), or a ThreadPoolExecutor.'
        )


def _lost(error: BaseException) -> EvaluationError:
    return EvaluationError(
        f"the executor gave up ({type(error).__name__}: {str(error) or 'no reason told'}): a worker was killed, ran "
        "out of memory, or cannot import tplimits. Finished tiles are kept where out= names a folder: give a new "
        "executor and call again."
    )


def _tile(name: str, number: int, job: Job | None) -> Found | None:
    """One tile; None where this process does not know the job."""
    known = _known(name, job)
    if known is None:
        return None
    with _alone(name):
        return known.tile(number)


def _begin(name: str, job: Job) -> None:
    """Compile what tiles need."""
    known = _known(name, job)
    assert known is not None
    with _alone(name):
        known.begin()


def _known(name: str, job: Job | None) -> Job | None:
    """The job of this name, kept from now on."""
    if _HOME.get(name) != os.getpid():
        _end_with_parent()
    if job is not None and name not in _JOBS:
        while len(_JOBS) >= _KEPT:
            del _JOBS[next(iter(_JOBS))]
        _JOBS[name] = job
    return _JOBS.get(name)


def _alone(name: str) -> AbstractContextManager[Any]:
    """One thread for linear algebra and loops: there are as many workers as cores.  Threads of the caller have that."""
    if _HOME.get(name) == os.getpid():
        return nullcontext()
    numba.set_num_threads(1)
    return one_thread()


def _end_with_parent() -> None:
    """Let this worker end when the process that started it does: without, a pool outlives one that is killed."""
    parent = multiprocessing.parent_process()
    if parent is None or any(thread.name == _WATCH for thread in threading.enumerate()):
        return

    def watch(sentinel: int = parent.sentinel) -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, name=_WATCH, daemon=True).start()


_WATCH = "tplimits-parent"
