"""tplimits watch"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from tplimits.commands import limits
from tplimits.commands.assignments import assigned, optimizer_named, parametrization_named, widths_named
from tplimits.commands.loading import batch, complete, labels_in, targets_in
from tplimits.commands.options import Decay, Optimizer, Ratios, Sets, Sizes, Target, Targets
from tplimits.commands.output import writable
from tplimits.commands.view import show_recording, write_page
from tplimits.program.network.batches import batches
from tplimits.program.network.data import inputs_of, sizes_of
from tplimits.program.network.losses import Loss
from tplimits.watch.watching import watch as watch_network

_TABLES = "sp, ntp, mup or up:S; μP, adjusted to the optimizer, if left out"


def watch(
    target: Target,
    data: Annotated[Path, typer.Option(metavar="FILE", help="inputs of the network, .npy or .npz")],
    lr: Annotated[float, typer.Option(help="the learning rate")],
    steps: Annotated[int, typer.Option(help="the number of steps")],
    targets: Targets = None,
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="classes 0, 1, …, .npy")] = None,
    held_out: Annotated[int, typer.Option("--held-out", metavar="N", help="the last inputs are not trained on")] = 0,
    widths: Annotated[str, typer.Option(metavar="N,N,…,inf", help="widths, and the limit")] = "32,128,inf",
    seeds: Annotated[int, typer.Option(help="networks of each width")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a file that grows, .npz; it goes on from it")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page that plays it")] = None,
    optimizer: Optimizer = None,
    weight_decay: Decay = None,
    parametrization: Annotated[str | None, typer.Option(metavar="NAME", help=_TABLES)] = None,
    batch_size: Annotated[int | None, typer.Option("--batch", metavar="N", help="inputs of a step")] = None,
    every: Annotated[int | None, typer.Option(metavar="N", help="steps between frames")] = None,
    probes: Annotated[Path | None, typer.Option(metavar="FILE", help="inputs to look at, .npy or .npz")] = None,
    sharpness: Annotated[bool, typer.Option("--sharpness", help="the largest eigenvalue of the Hessian")] = False,
    particles: Annotated[int, typer.Option(help="samples of kets that the limit trains on")] = 4096,
    set_: Sets = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    ratio: Ratios = [],  # noqa: B006
) -> None:
    """Train a network at several widths with its limit beside them, and keep every frame."""
    writable(out, html)
    loss, net, inputs = _loss(targets, labels, held_out), limits.bound(target, size), batch(data)
    if net.is_network:
        complete(net.sized(sizes_of(net, inputs_of(net, inputs, "--data"))))
    recording = watch_network(
        net,
        inputs,
        error=loss,
        optimizer=optimizer_named(optimizer or "sgd"),
        lr=lr,
        steps=steps,
        widths=widths_named(widths),
        seeds=seeds,
        weight_decay=weight_decay or 0.0,
        parametrization=None if parametrization is None else parametrization_named(parametrization, {}),
        batches=None if batch_size is None else batches(batch_size),
        every=every,
        probes=None if probes is None else batch(probes),
        sharpness=sharpness,
        particles=particles,
        path=out,
        ratios=assigned("--ratio", ratio),
        constants=assigned("--set", set_),
    )
    show_recording(recording)
    if html:
        write_page(recording, html)


def _loss(targets: Path | None, labels: Path | None, held_out: int) -> Loss:
    if (targets is None) == (labels is None):
        raise TyperException("give --targets FILE for the squared error, or --labels FILE for the cross-entropy.")
    if targets is not None:
        return targets_in(targets, held_out)
    assert labels is not None
    return labels_in(labels, held_out)
