"""Progress of long work: a bar in a terminal, a callback elsewhere, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rich.console
import rich.progress

from tplimits.errors import EvaluationError, shown

#: called with (work done, work in all, what is being done)
Callback = Callable[[float, float, str], None]
#: True and False switch the bar on and off, None shows it in a terminal
Progress = Callback | bool | None


class Report:
    """Counts work done against work planned, and tells a callback.

    >>> seen = []
    >>> report = Report(lambda done, total, text: seen.append((done, total, text)))
    >>> report.plan(10, "pilot"); report.advance(4)
    >>> seen
    [(0.0, 10.0, 'pilot'), (4.0, 10.0, 'pilot')]
    """

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._done = self._total = 0.0
        self._text = ""

    def plan(self, work: float, text: str) -> None:
        """Add work to come."""
        self._total += work
        self._text = text
        self._callback(self._done, self._total, text)

    def advance(self, work: float) -> None:
        """Tell that some of it is done."""
        self._done += work
        self._callback(self._done, self._total, self._text)


def refuse_unknown(progress: object) -> None:
    """EvaluationError for what asks for no progress that there is."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise EvaluationError(
            f"progress={shown(progress)}: give True, False, None, or a function of (work done, work in all, text)."
        )


@contextmanager
def reporting(progress: Progress) -> Iterator[Report]:
    """A Report for the duration of some work; see `Progress` for what may be asked, EvaluationError for the rest."""
    refuse_unknown(progress)
    if callable(progress):
        yield Report(progress)
    elif progress or (progress is None and sys.stderr.isatty()):
        columns = (
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.TaskProgressColumn(),
            rich.progress.TimeRemainingColumn(),
        )
        console = rich.console.Console(stderr=True, force_terminal=True if progress else None)
        with rich.progress.Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("check", total=None)
            yield Report(lambda done, total, text: bar.update(task, completed=done, total=total, description=text))
    else:
        yield Report(lambda done, total, text: None)
