"""tplimits evaluate"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tplimits.commands import limits
from tplimits.commands import options as of
from tplimits.commands.assignments import assigned
from tplimits.commands.output import writable, write, write_report
from tplimits.pages.report import Report, Reported
from tplimits.regimes.protocol import Numbered, Shown
from tplimits.terminal import show, table, working


def evaluate(
    target: of.Target,
    method: of.Method = None,
    particles: of.Particles = None,
    replicates: of.Replicates = None,
    seed: of.Seed = 0,
    set_: of.Sets = [],  # noqa: B006
    size: of.Sizes = [],  # noqa: B006
    ratio: of.Ratios = [],  # noqa: B006
    data: of.Data = [],  # noqa: B006
    regime: of.AskedRegime = None,
    infinite: of.Infinite = [],  # noqa: B006
    train: of.Train = [],  # noqa: B006
    optimizer: of.Optimizer = None,
    weight_decay: of.Decay = None,
    targets: of.Targets = None,
    lr: of.Rate = None,
    steps: of.Times = None,
    f0: of.Start = None,
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="training: go on from here")] = None,
    latex: of.Latex = None,
    html: of.Html = None,
    json: of.Json = None,
) -> None:
    """Give the limit as numbers with errors; of a network and --data, its kernels, or its outputs in training."""
    writable(latex, html, json)
    constants, ratios = assigned("--set", set_), assigned("--ratio", ratio)
    options = limits.Options.among(locals())
    kind = limits.with_numbers(regime, options)
    how = limits.inputs(kind, options)
    limit: Numbered = limits.limit(kind, target, limits.bound(target, size), options, constants)
    with working("evaluating"):
        numbers = limit.evaluate(**how, seed=seed, ratios=ratios, constants=constants)
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
