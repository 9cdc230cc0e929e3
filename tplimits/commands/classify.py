"""tplimits classify"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tplimits.commands import limits
from tplimits.commands.assignments import assigned, optimizer_named, parametrization_named
from tplimits.commands.options import Html, Json, Latex, Sets, Sizes
from tplimits.commands.output import writable, write_report
from tplimits.errors import NoLimitError
from tplimits.regimes.classification.classification import Classification
from tplimits.regimes.classification.classification import classify as classified
from tplimits.terminal import show

_TARGET = "a network: a zoo name, file.py:name, or a .json program; or the number of hidden layers of a perceptron"


def classify(
    target: Annotated[str, typer.Argument(help=_TARGET)],
    parametrization: Annotated[str, typer.Option(metavar="sp|ntp|mup|up:S", help="the table of exponents")] = "mup",
    exponents: Annotated[
        list[str],
        typer.Option("--exponents", metavar="KIND=a,b,c,d", help="others for a kind, a parameter, or out"),
    ] = [],  # noqa: B006
    optimizer: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE,…]", help="sgd, adam:eps=0.01, …")] = "sgd",
    size: Sizes = [],  # noqa: B006
    set_: Sets = [],  # noqa: B006
    latex: Latex = None,
    html: Html = None,
    json: Json = None,
) -> None:
    """Say which limit a parametrization has, and what a training script has to set for it."""
    writable(latex, html, json)
    network: Any = int(target) if target.isdecimal() else limits.bound(target, size, set_)
    table = parametrization_named(parametrization, assigned("--exponents", exponents))
    found = classified(network, table, optimizer_named(optimizer))
    show(repr(found), "", repr(found.multipliers))
    if found.regime != "feature":
        show("", "nearest maximal update parametrization", _nearest(found))
    write_report(found, latex, html, json)


def _nearest(found: Classification) -> str:
    """The proposal, or why there is none."""
    try:
        return str(found.nearest)
    except NoLimitError as refused:
        return f"none: {refused}"
