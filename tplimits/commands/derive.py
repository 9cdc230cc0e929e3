"""tplimits derive"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from tplimits.commands import limits
from tplimits.commands.options import Html, Json, Latex, Sets, Sizes, Target, spread
from tplimits.commands.output import writable, write_report
from tplimits.regimes.protocol import Limit
from tplimits.terminal import show

_HELP = "width; depth: it grows with width, for a block; of a network: kernels, feature, operator"


@dataclass(frozen=True)
class DeriveOptions(limits.Options):
    """What is said about a regime that is derived."""

    fixed: Annotated[list[str], typer.Option("--fixed", metavar="WIDTH", help="depth: a width that stays")] = field(
        default_factory=list
    )
    tangent: Annotated[bool, typer.Option("--tangent", help="depth: a perturbation too, for gradients")] = False


@spread
def derive(
    target: Target,
    options: DeriveOptions,
    regime: Annotated[str, typer.Option(help=_HELP)] = "width",
    size: Sizes = [],  # noqa: B006 - typer reads the default, nothing changes it
    set_: Sets = [],  # noqa: B006
    steps: Annotated[bool, typer.Option("--steps", help="print the derivation step by step")] = False,
    latex: Latex = None,
    html: Html = None,
    json: Json = None,
) -> None:
    """Derive the infinite-width limit and print it."""
    kind = limits.regime_named(regime, options)
    writable(latex, html, json)
    limit: Limit = limits.limit(kind, target, limits.bound(target, size, set_), options)
    show(repr(limit.program), "", repr(limit))
    if steps:
        show("", *(f"{number:>3}  {step}" for number, step in enumerate(limit.steps, start=1)))
    write_report(limit, latex, html, json)
