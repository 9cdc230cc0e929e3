"""Tests of one process run in copies of it: each starts warm, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from planting import ROOT

#: seconds of a test while a map is made: no mutant waits for a longer one
LONGEST = 3.0


class Collected:
    """A plug-in of pytest that hands the collected tests to a function instead of running them."""

    def __init__(self, work: Callable[[list[Any]], None]) -> None:
        self._work = work

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        session.config._tmp_path_factory.getbasetemp()
        self._work(session.items)
        return True


def in_a_copy(run: Callable[[], str], seconds: float) -> str | None:
    """What a function returns in a copy of this process; None if it takes more seconds of the processor, or dies."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with suppress(BaseException):
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
                os.write(write, b"=" + run().encode())
        finally:  # also where a test's own interrupt comes late: two judges would go on
            os._exit(0)
    os.close(write)
    until = time.monotonic() + 6 * seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:  # asleep for good
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    with os.fdopen(read, "rb") as file:
        found = file.read().decode()
    return found[1:] if found else None


def first_failure(items: Sequence[Any]) -> str:
    """The first of some tests that fails, "" if none does."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            return str(item.nodeid)
    return ""


def what_they_call(items: Sequence[Any], folders: tuple[str, ...], put: Callable[[dict[str, Any]], None]) -> str:
    """Run tests and put down which functions each calls, after how long, and whether it passes."""
    within = tuple(f"{ROOT / folder}/" for folder in folders)
    signal.signal(signal.SIGPROF, _too_long)
    for item, following in zip(items, [*items[1:], None], strict=True):
        seen: set[Any] = set()

        def trace(frame: Any, _event: str, _argument: Any, seen: set[Any] = seen) -> None:
            seen.add(frame.f_code)

        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        sys.settrace(trace)
        reports = runtestprotocol(item, log=False, nextitem=following)
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        calls = sorted(
            {
                f"{c.co_filename.removeprefix(f'{ROOT}/')}:{c.co_name}"
                for c in seen
                if c.co_filename.startswith(within) and c.co_name[0] != "<"
            }
        )
        put({
            "test": item.nodeid, "seconds": round(time.process_time() - begun, 3), "calls": calls,
            "passed": all(r.passed for r in reports),
        })  # fmt: skip
    return "done"


class TooLong(Exception):
    """A test that no mutant waits for."""


def _too_long(*_: object) -> None:
    raise TooLong
