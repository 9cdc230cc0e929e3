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
from tplimits.regimes.classification.report import about_start, power_of_n
from tplimits.terminal import show
from tplimits.torch.scaling.applying import positive

_TARGET = "a network: a zoo name, file.py:name, or a .json program; or the number of hidden layers of a perceptron"


#: lines of the short answer, and names of parameters with the same numbers
_LINES, _NAMES = 10, 6


def classify(
    target: Annotated[str, typer.Argument(help=_TARGET)],
    parametrization: Annotated[str, typer.Option(metavar="sp|ntp|mup|up:S", help="the table of exponents")] = "mup",
    exponents: Annotated[
        list[str], typer.Option("--exponents", metavar="KIND=a,b,c,d", help="others for a kind, a parameter, or out")
    ] = [],  # noqa: B006
    optimizer: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE,…]", help="sgd, adam:eps=0.01, …")] = "sgd",
    size: Sizes = [],  # noqa: B006
    set_: Sets = [],  # noqa: B006
    weight_decay: Annotated[
        float | None, typer.Option("--weight-decay", help="λ of w ← (1 − lr λ) w − lr Q, as in AdamW")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="all inequalities, and all that breaks")] = False,
    latex: Latex = None,
    html: Html = None,
    json: Json = None,
) -> None:
    """Say which limit a parametrization has, and what a training script has to set for it."""
    writable(latex, html, json)
    decay = None if weight_decay is None else positive("--weight-decay", weight_decay)
    network: Any = int(target[:30]) if target.isdecimal() else limits.bound(target, size, set_)
    table = parametrization_named(parametrization, assigned("--exponents", exponents))
    found = classified(network, table, optimizer_named(optimizer))
    if full:
        show(repr(found), "", repr(found.multipliers))
        if found.regime != "feature":
            show("", "nearest maximal update parametrization", _nearest(found))
    else:
        show(*_in_short(found, decay))
    write_report(found, latex, html, json)


def _nearest(found: Classification) -> str:
    """The proposal, or why there is none."""
    try:
        return str(found.nearest)
    except NoLimitError as refused:
        return f"none: {refused}"


def _in_short(found: Classification, decay: float | None) -> list[str]:
    """The verdict, what breaks first, and what a script sets: now where that is stable, else in the nearest table."""
    lines = [repr(found).splitlines()[0]]
    if found.breaks:
        more = len(found.breaks) - 1
        lines.append(f"  {found.breaks[0]}{f', and {more} more' if more else ''}")
    # a regime counts powers of n, of what may have no limit at all
    lines += [f"  {line}" for line in about_start(found.verdict)]
    script, whose = found.multipliers, "a training script sets, with n over the width that was tuned"
    if found.regime != "feature":
        try:
            near = classified(found.program, found.nearest, found.optimizer)
            script, whose = (near.multipliers, "the nearest table with features that move sets")
        except NoLimitError as refused:
            return [*lines, f"  nearest table: none: {refused}"]
    lines.append(f"  {whose}")
    same: dict[tuple[str, ...], list[str]] = {}
    for row in script:
        told = [f"initial std {power_of_n(row.std)}", f"lr × {power_of_n(row.lr)}"]
        told += [] if row.eps is None else [f"ε × {power_of_n(row.eps)}"]
        told += [] if decay is None else [f"weight decay {decay:g} × {power_of_n(-row.lr)}"]
        same.setdefault(tuple(told), []).append(row.name)
    for told_once, names in same.items():
        shown = ", ".join(names) if len(names) <= _NAMES else f"{', '.join(names[:_NAMES])}, … ({len(names)})"
        lines.append(f"    {shown}: {', '.join(told_once)}")
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"    … {len(lines) - _LINES + 1} more: --full"]
