"""Arguments and options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Target = Annotated[str, typer.Argument(help="a zoo name, file.py:name, or a .json program")]
Sets = Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="a constant or given scalar")]
Sizes = Annotated[list[str], typer.Option("--size", metavar="AXIS=SIZE", help="the size of a finite axis")]
Ratios = Annotated[list[str], typer.Option("--ratio", metavar="WIDTH=RATIO", help="a width relative to n")]
Method = Annotated[str | None, typer.Option(help="width: auto, exact, quadrature or particles")]
Only = Annotated[list[str], typer.Option("--only", metavar="LABEL", help="width: this one alone")]
Particles = Annotated[int | None, typer.Option(help="particles of one replicate")]
Replicates = Annotated[int | None, typer.Option(help="independent runs of particles, for the error")]
Infinite = Annotated[
    list[str], typer.Option("--infinite", metavar="AXIS", help="kernels, operator: infinitely many of it")
]
Train = Annotated[list[str], typer.Option("--train", metavar="NAME", help="kernels: what is trained; all if left out")]
Data = Annotated[
    list[Path],
    typer.Option("--data", metavar="FILE", help="inputs of a network, .npy or .npz; for kernels one batch or two"),
]
Seed = Annotated[int, typer.Option(min=0, help="the same seed gives the same numbers")]
AskedRegime = Annotated[
    str | None, typer.Option("--regime", help="width, kernels, feature or operator; kernels of a network with --data")
]
#: of networks in training
Optimizer = Annotated[
    str | None, typer.Option(metavar="NAME[:KEY=VALUE,…]", help="training: sgd (if left out), adam:eps=0.01, …")
]
Decay = Annotated[float | None, typer.Option("--weight-decay", help="training: λ of w ← (1 − λ) w − lr Q")]
Targets = Annotated[
    Path | None, typer.Option(metavar="FILE", help="training: targets, .npy; inputs with NaN are not trained on")
]
Rate = Annotated[float | None, typer.Option("--lr", help="training: the learning rate")]
Times = Annotated[int | None, typer.Option("--steps", help="training: the number of steps")]
Start = Annotated[
    Path | None, typer.Option("--f0", metavar="FILE", help="operator: outputs at the start, .npy; drawn if left out")
]
Latex = Annotated[Path | None, typer.Option(metavar="FILE", help="write the formulas as LaTeX; - is the output")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="write a page with everything; - is the output")]
Json = Annotated[Path | None, typer.Option(metavar="FILE", help="write it for other programs; - is the output")]


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every field of its dataclasses, so that options of several are stated once."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    def run(**given: Any) -> None:
        made = {name: kind(**{f.name: given.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**given, **made)

    def options() -> Iterator[Parameter]:
        for name, own in signature(command).parameters.items():
            if name not in groups:
                yield Parameter(name, Parameter.KEYWORD_ONLY, default=own.default, annotation=hints[name])
                continue
            annotations = get_type_hints(groups[name], include_extras=True)
            for f in fields(groups[name]):
                default = [] if f.default is MISSING else f.default
                yield Parameter(f.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotations[f.name])

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = Signature(list(options()))  # type: ignore[attr-defined]
    return run
