"""tplimits evaluate"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from tplimits import __version__
from tplimits.assignments import assigned
from tplimits.commands import limits
from tplimits.commands.options import (
    AskedRegime,
    Data,
    Decay,
    Infinite,
    Method,
    Optimizer,
    Particles,
    Rate,
    Ratios,
    Replicates,
    Seed,
    Sets,
    Sizes,
    Start,
    Target,
    Targets,
    Times,
    Train,
)
from tplimits.output import writable, write
from tplimits.report import json_report
from tplimits.terminal import show, table, working


def evaluate(
    target: Target,
    method: Method = "auto",
    particles: Particles = None,
    replicates: Replicates = None,
    seed: Seed = 0,
    set_: Sets = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    ratio: Ratios = [],  # noqa: B006
    data: Data = [],  # noqa: B006
    regime: AskedRegime = None,
    infinite: Infinite = [],  # noqa: B006
    train: Train = [],  # noqa: B006
    optimizer: Optimizer = None,
    weight_decay: Decay = None,
    targets: Targets = None,
    lr: Rate = None,
    steps: Times = None,
    f0: Start = None,
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="training: go on from here")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write the numbers for other programs")] = None,
) -> None:
    """Give the limit as numbers with errors; of a network and --data, its kernels, or its outputs in training."""
    writable(json)
    constants, ratios = assigned("--set", set_), assigned("--ratio", ratio)
    asked = limits.Training(optimizer, weight_decay, targets, lr, steps, f0, checkpoint)
    chosen = limits.regime_of(regime, bool(data or infinite or train))
    asked.refuse_without(chosen)
    counts = {k: v for k, v in (("particles", particles), ("replicates", replicates)) if v is not None}
    common = {**counts, "seed": seed, "ratios": ratios, "constants": constants}
    if chosen in limits.TRAINING:
        text = _training(chosen, target, size, infinite, train, asked, data, common)
    elif chosen == "kernels":
        text = _kernels(target, size, train, infinite, data, common)
    else:
        if data or infinite or train:
            raise TyperException("--data, --infinite and --train are for networks, not for --regime width.")
        text = _width(target, size, method, common)
    if json:
        write(json, text)


def _width(target: str, size: Sequence[str], method: str, common: Mapping[str, Any]) -> str:
    limit = limits.width(target, size, given=common["constants"])
    with working("evaluating"):
        numbers = limit.evaluate(method, **common)
    doubts = [f"± {n.error:.1e}" if n.method != "exact" else "" for n in numbers.values()]
    rows = [(k, f"{n.value:.12g}", d, n.method) for (k, n), d in zip(numbers.items(), doubts, strict=True)]
    head: tuple[str, ...] = ("quantity", "value", "error", "method")
    if any(n.variance for n in numbers.values()):
        head = (*head, "variance")
        spread = [f"{n.variance:.12g}" if n.variance else "" for n in numbers.values()]
        table(head, [(*row, v) for row, v in zip(rows, spread, strict=True)])
    else:
        table(head, rows)
    return json_report.numbers(limit.program, numbers, __version__)


def _kernels(
    target: str,
    size: Sequence[str],
    train: Sequence[str],
    infinite: Sequence[str],
    data: Sequence[Path],
    common: Mapping[str, Any],
) -> str:
    read = limits.batches(data)
    limit = limits.kernels(target, size, (), train, infinite)
    with working("evaluating"):
        pair = limit.evaluate(*read, **{k: v for k, v in common.items() if k != "particles"})
    show(f"NNGP\n{pair.nngp}")
    show(f"NTK\n{pair.ntk}")
    return json_report.kernel_numbers(limit.program, pair, __version__)


def _training(
    regime: str,
    target: str,
    size: Sequence[str],
    infinite: Sequence[str],
    train: Sequence[str],
    asked: limits.Training,
    data: Sequence[Path],
    common: Mapping[str, Any],
) -> str:
    if train:
        raise TyperException("--train goes with --regime kernels; in training all parameters move.")
    how = asked.run(regime, data)
    limit = limits.training(regime, target, size, (), infinite, asked)
    run = limit.evaluate(**how, **common, checkpoint=asked.checkpoint)
    doubts = [f"± {e:.1e}" if e else "" for e in run.stderr.ravel()]
    rows = [(name, f"{x:.6g}", d) for name, x, d in zip(run.labels, run.f.ravel(), doubts, strict=True)]
    table(("output", "value", "error"), rows)
    return json_report.training_numbers(limit.program, run.f, run.stderr, __version__)
