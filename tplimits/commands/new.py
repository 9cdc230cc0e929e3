"""tplimits new"""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from tplimits.commands.output import write
from tplimits.terminal import show

_TEMPLATE = '''"""A two-layer network of your own: change it, then run the commands below."""

import tplimits as tp


@tp.network
def {name}(x: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    # x is data, which goes in through a sum over its axis; U, W and v are parameters, drawn at random
    h = tp.sum(U * x, over="d") / tp.sqrt(tp.size("d"))
    return v * tp.tanh(W @ tp.tanh(h))


if __name__ == "__main__":
    kernels = tp.derive({name}, tp.Kernels())
    print(kernels)
    print(kernels.evaluate([[1.0, 0.0], [0.6, 0.8]]))
    kernels.report().save("{name}.html")
'''
_NEXT = (
    "python {file}",
    "tplimits derive {file}:{name} --regime kernels --html {name}.html",
    "tplimits classify {file}:{name} --parametrization mup",
)


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the name of the network; NAME.py is written")],
) -> None:
    """Write a network to start from, and say what to do with it."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise TyperException(f"{name!r} is no name for a Python function: letters, digits and _, no digit first.")
    place = Path(f"{name}.py")
    if place.exists():
        raise TyperException(f"{place} is there already; it is left as it is.")
    write(place, _TEMPLATE.format(name=name))
    show("next:", *(f"  {line.format(file=place, name=name)}" for line in _NEXT))
