"""tplimits evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tplimits.commands import limits
from tplimits.commands import options as of
from tplimits.commands.assignments import assigned
from tplimits.commands.output import writable, write
from tplimits.regimes.protocol import Numbered
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
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write the numbers for other programs")] = None,
) -> None:
    """Give the limit as numbers with errors; of a network and --data, its kernels, or its outputs in training."""
    writable(json)
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
    if json:
        write(json, limit.numbers_document(numbers))
