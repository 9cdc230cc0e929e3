"""tplimits width"""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from tplimits.commands import limits
from tplimits.commands.assignments import assigned
from tplimits.commands.options import Html, Json, Latex, Ratios, Sets, Sizes, Target
from tplimits.commands.output import writable, write_report
from tplimits.derive import derive
from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import positive_number
from tplimits.regimes.finite_width.limit import FiniteWidth
from tplimits.terminal import show, table, working


def width(
    target: Target,
    relative: Annotated[float, typer.Option(help="how near to the limit, as a share of it")] = 0.01,
    n: Annotated[int | None, typer.Option("--width", min=1, help="means and spreads at this width, too")] = None,
    set_: Sets = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    ratio: Ratios = [],  # noqa: B006
    latex: Latex = None,
    html: Html = None,
    json: Json = None,
) -> None:
    """Say how wide is wide enough: for the mean over networks, and for each network by itself."""
    writable(latex, html, json)
    positive_number("--relative", relative, EvaluationError)
    program = limits.bound(target, size)
    given: dict[str, Any] = {"constants": assigned("--set", set_), "ratios": assigned("--ratio", ratio)}
    with working(f"deriving {program.name}"):
        limit = derive(program, FiniteWidth())
        found = limit.evaluate(**given)
    show(repr(limit), "")
    for name, expansion in found.items():
        if expansion.never_near:
            show(f"{name} {expansion.never_near}")
            continue
        enough = limit.width_for(name, relative=relative, **given)
        show(f"{name} is within {relative:g} of its limit from width {enough.mean} on average, {enough.network} in one")
    if n is not None:
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            at = limit.at(n, **given)
        for doubt in doubts:
            show(str(doubt.message))
        rows = tuple((k, f"{e.value:.6g}", f"± {e.variance**0.5:.2g}") for k, e in at.items())
        table(("quantity", f"mean at width {n}", "spread"), rows)
    write_report(limit, latex, html, json)
