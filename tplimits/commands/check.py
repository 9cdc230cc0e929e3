"""tplimits check"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tplimits.check import check as check_limit
from tplimits.commands import limits
from tplimits.commands import options as of
from tplimits.commands.assignments import assigned, wholes
from tplimits.commands.output import drawable, picture, writable, write, write_report
from tplimits.terminal import show

REJECTED = 1


@of.spread
def check(
    target: of.Target,
    options: limits.NumberOptions,
    widths: Annotated[str | None, typer.Option(metavar="N,N,…", help="widths to sample at")] = None,
    draws: Annotated[str | None, typer.Option(metavar="D|D,D,…", help="networks at each width")] = None,
    level: Annotated[float, typer.Option(help="the probability to reject a true limit")] = 1e-2,
    claim: Annotated[list[str], typer.Option(metavar="NAME=VALUE", help="judge this value instead")] = [],  # noqa: B006
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="write a picture: .png, .pdf or .svg")] = None,
    latex: of.Latex = None,
    html: of.Html = None,
    json: of.Json = None,
) -> None:
    """Run the program at finite widths and judge the limit, of a network and --data its kernels, or its outputs in
    training; exit status 1 when it is rejected."""
    drawable(plot)
    writable(plot, latex, html, json)
    claims, at, counts = assigned("--claim", claim), wholes("--widths", widths), wholes("--draws", draws)
    limit, given = limits.with_numbers(target, options)
    each = counts[0] if counts and len(counts) == 1 else counts
    verdict = check_limit(limit, at, each, level=level, claims=claims or None, **given)
    show(verdict.sentence, verdict.table, style="green" if verdict.accepted else "red")
    if plot:
        write(plot, picture(verdict, plot.suffix.lower()[1:]))
    write_report(verdict, latex, html, json)
    if not verdict.accepted:
        raise typer.Exit(REJECTED)
