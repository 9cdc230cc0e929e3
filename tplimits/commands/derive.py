"""tplimits derive"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from tplimits.commands import limits
from tplimits.commands.options import Decay, Infinite, Optimizer, Sets, Sizes, Target, Train
from tplimits.output import report, writable, write
from tplimits.report import html as html_page
from tplimits.report import json_report
from tplimits.results.kernels import KernelLimit
from tplimits.results.proportional import CovarianceSDE
from tplimits.results.training.maximal import MaximalLimit
from tplimits.results.training.tangent import TangentLimit
from tplimits.results.width import WidthLimit
from tplimits.terminal import show

_HELP = "width; proportional: depth grows with width, for a block; of a network: kernels, maximal, tangent"


def derive(
    target: Target,
    regime: Annotated[str, typer.Option(help=_HELP)] = "width",
    fixed: Annotated[list[str], typer.Option("--fixed", metavar="WIDTH", help="proportional: a width that stays")] = [],  # noqa: B006
    infinite: Infinite = [],  # noqa: B006
    train: Train = [],  # noqa: B006
    optimizer: Optimizer = None,
    weight_decay: Decay = None,
    size: Sizes = [],  # noqa: B006 - typer reads the default, nothing changes it
    set_: Sets = [],  # noqa: B006
    steps: Annotated[bool, typer.Option("--steps", help="print the derivation step by step")] = False,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="write the limit as LaTeX")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page with everything")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write the limit for other programs")] = None,
) -> None:
    """Derive the infinite-width limit and print it."""
    if regime not in limits.REGIMES:
        raise TyperException(f"--regime {regime}: this version knows the regimes {', '.join(limits.REGIMES)}.")
    if regime == "proportional" and (html or json):
        raise TyperException(f"--regime {regime} writes --latex; pages and JSON are for the other regimes.")
    if fixed and regime != "proportional":
        raise TyperException("--fixed goes with --regime proportional.")
    if train and regime != "kernels":
        raise TyperException("--train goes with --regime kernels.")
    if infinite and regime not in ("kernels", "tangent"):
        raise TyperException("--infinite goes with --regime kernels or --regime tangent.")
    asked = limits.Training(optimizer, weight_decay)
    asked.refuse_without(regime)
    writable(latex, html, json)
    limit: WidthLimit | CovarianceSDE | KernelLimit | MaximalLimit | TangentLimit
    if regime == "width":
        limit = limits.width(target, size, set_)
    elif regime == "kernels":
        limit = limits.kernels(target, size, set_, train, infinite)
    elif regime == "proportional":
        limit = limits.stochastic(limits.bound(target, size, set_), fixed)
    else:
        limit = limits.training(regime, target, size, set_, infinite, asked)
    show(repr(limit.program), "", repr(limit))
    if steps:
        show("", *(f"{number:>3}  {step}" for number, step in enumerate(limit.steps, start=1)))
    if latex:
        write(latex, limit.latex() + "\n")
    if html:
        write(html, report(html_page, limit))
    if json:
        write(json, report(json_report, limit))
