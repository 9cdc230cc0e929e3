"""How long a case may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: seconds of CPU a case may take
PATIENCE = 60


class OutOfPatience(BaseException):
    """The case took too long; no `except Exception` on the way stops it."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """OutOfPatience after so many seconds of CPU, which a busy machine does not shorten."""

    def late(*_: object) -> None:
        raise OutOfPatience

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
