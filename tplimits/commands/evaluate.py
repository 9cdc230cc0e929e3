"""tplimits evaluate"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tplimits.commands import limits
from tplimits.commands import options as of
from tplimits.commands.output import writable, write, write_report
from tplimits.pages.report import Report, Reported
from tplimits.regimes.protocol import Numbered, Shown
from tplimits.terminal import show, table, working


@dataclass(frozen=True)
class EvaluateOptions(limits.NumberOptions):
    """What is said about a regime, its numbers and where they are kept."""

    only: of.Only = field(default_factory=list)
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="training: go on from here")] = None


@of.spread
def evaluate(
    target: of.Target, options: EvaluateOptions, latex: of.Latex = None, html: of.Html = None, json: of.Json = None
) -> None:
    """Give the limit as numbers with errors; of a network and --data, its kernels, or its outputs in training."""
    writable(latex, html, json)
    found_limit, given = limits.with_numbers(target, options)
    limit: Numbered = found_limit
    with working("evaluating"):
        numbers = limit.evaluate(**given)
    found = limit.shown(numbers)
    if found.texts:
        show(*found.texts)
    if found.rows:
        table(found.head, found.rows)
    if latex or html:
        report = numbers if isinstance(numbers, Reported) else _Told(limit, found)
        write_report(report, latex, html, None)
    if json:
        write(json, limit.numbers_document(numbers))


@dataclass(frozen=True)
class _Told(Reported):
    """A limit with its numbers, where these are a table and no result of their own."""

    limit: Any
    found: Shown

    def report(self) -> Report:
        """The report of the limit with the numbers at its top."""
        rows = tuple((row[0], ", ".join(filter(None, row[1:]))) for row in self.found.rows)
        whole: Report = self.limit.report()
        return replace(whole, numbers=rows, text="\n".join([whole.text, *(f"  {a} = {b}" for a, b in rows)]))
