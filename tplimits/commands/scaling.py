"""tplimits scaling"""

from __future__ import annotations

from typing import Annotated

import typer

from tplimits.commands.loading import named_values
from tplimits.commands.options import Html, Json
from tplimits.commands.output import writable, write_report
from tplimits.errors import ProgramError
from tplimits.terminal import show
from tplimits.torch.door import scaling as planned

_TARGET = "file.py:make, where make(n) builds the model of width n in PyTorch; file.py alone is file.py:make"


def scaling(
    target: Annotated[str, typer.Argument(help=_TARGET)],
    example: Annotated[
        str, typer.Option(metavar="NAME", help="what the model is called with, in the file")
    ] = "example",
    optimizer: Annotated[str, typer.Option(metavar="NAME", help="adamw, sgd, lion, muon, …")] = "adamw",
    base: Annotated[int, typer.Option(help="the width where rates were tuned")] = 64,
    depth: Annotated[int | None, typer.Option(help="the depth where rates were tuned, of make(n, depth)")] = None,
    residual: Annotated[str, typer.Option(metavar="1|1/2", help="with --depth: the power of 1/L on blocks")] = "1",
    width: Annotated[list[int], typer.Option("--width", help="a width to read the model at; three")] = [],  # noqa: B006
    html: Html = None,
    json: Json = None,
) -> None:
    """Say what a training script of a PyTorch model sets as the model is widened."""
    writable(html, json)
    file, colon, name = target.rpartition(":")
    file, name = (file, name) if colon and file.endswith(".py") else (target, "make")
    if not file.endswith(".py"):
        raise ProgramError(f"`{target}`: give file.py:make, a function of the width that builds a PyTorch model.")
    found = named_values(file, (name, example))
    if not callable(found[name]):
        raise ProgramError(f"{file}: `{name}` is a {type(found[name]).__name__}: give make(n), which builds the model.")
    plan = planned(found[name], found[example], optimizer, base, tuple(width) or (64, 128, 256), depth, residual)
    show(str(plan))
    write_report(plan, None, html, json)
