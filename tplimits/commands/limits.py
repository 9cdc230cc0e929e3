"""The limit that a command is about: a target, what was given for it, and a regime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.exceptions import TyperException

from tplimits.assignments import assigned, optimizer_named
from tplimits.loading import array, batch, complete, infinite_axes, load, targets_in
from tplimits.program.program import Program
from tplimits.results.derive import derive as derive_limit
from tplimits.results.kernels import KernelLimit, Kernels
from tplimits.results.proportional import CovarianceSDE, Proportional
from tplimits.results.training.maximal import MaximalLimit, MaximalUpdate
from tplimits.results.training.tangent import NeuralTangent, TangentLimit
from tplimits.results.width import WidthLimit
from tplimits.terminal import working

REGIMES = ("width", "proportional", "kernels", "maximal", "tangent")
#: those of networks in training
TRAINING = ("maximal", "tangent")


@dataclass(frozen=True)
class Training:
    """What is given for a network in training; None is left out."""

    optimizer: str | None = None
    weight_decay: float | None = None
    targets: Path | None = None
    lr: float | None = None
    steps: int | None = None
    f0: Path | None = None
    checkpoint: Path | None = None

    def refuse_without(self, regime: str | None) -> None:
        """Refuse options of training for another regime."""
        for name, value in vars(self).items():
            if value is not None and regime not in TRAINING:
                option = name.replace("_", "-")
                raise TyperException(f"--{option} goes with --regime maximal or --regime tangent.")

    def run(self, regime: str, data: Sequence[Path]) -> dict[str, Any]:
        """The arguments of `evaluate` and `check`."""
        if len(data) != 1:
            raise TyperException(f"--regime {regime} takes its inputs from --data FILE, one batch.")
        for option, value in (("targets FILE", self.targets), ("lr 0.1", self.lr), ("steps 10", self.steps)):
            if value is None:
                raise TyperException(f"--regime {regime} evolves in training: add --{option}.")
        assert self.targets is not None
        asked = {"X": batch(data[0]), "error": targets_in(self.targets), "lr": self.lr, "steps": self.steps}
        if self.f0 is not None:
            if regime != "tangent":
                raise TyperException("--f0 goes with --regime tangent; in the feature-learning limit it is not random.")
            asked["f0"] = array(self.f0)
        return asked


def regime_of(asked: str | None, about_kernels: bool) -> str:
    """The regime of `evaluate` and `check`: kernels where something is said about them, else width."""
    known = [r for r in REGIMES if r != "proportional"]
    if asked is not None and asked not in known:
        raise TyperException(f"--regime {asked}: numbers are those of {', '.join(known)}.")
    return asked or ("kernels" if about_kernels else "width")


def bound(target: str, sizes: Sequence[str], constants: Sequence[str] = ()) -> Program:
    """The target with sizes and constants; others stay open."""
    values = {**assigned("--size", sizes), **assigned("--set", constants)}
    program: Program = load(target)
    return program.bind(**values) if values else program


def width(
    target: str, sizes: Sequence[str], constants: Sequence[str] = (), given: Mapping[str, Any] | None = None
) -> WidthLimit:
    """The width limit of the target; `given` is told from what numbers will need."""
    program = bound(target, sizes, constants)
    if program.state is not None:
        raise TyperException(
            f"`{program.name}` is a block, one layer of a deep network: tplimits derive --regime proportional."
        )
    if program.is_network:
        raise TyperException(
            f"`{program.name}` is a network: tplimits derive --regime kernels, maximal or tangent, or evaluate "
            "and check with --data."
        )
    complete(program, given)
    with working(f"deriving {program.name}"):
        return derive_limit(program)


def stochastic(program: Program, fixed: Sequence[str]) -> CovarianceSDE:
    """The covariance SDE of a block."""
    with working(f"deriving {program.name}"):
        return derive_limit(program, Proportional(tuple(fixed)))


def kernels(
    target: str, sizes: Sequence[str], constants: Sequence[str], train: Sequence[str], infinite: Sequence[str]
) -> KernelLimit:
    """The kernels of a target; a network of the zoo says itself which of its axes are infinite."""
    program = bound(target, sizes, constants)
    axes = tuple(infinite) or infinite_axes(target, program)
    with working(f"deriving {program.name}"):
        return derive_limit(program, Kernels(tuple(train) or None, axes))


def training(
    regime: str,
    target: str,
    sizes: Sequence[str],
    constants: Sequence[str],
    infinite: Sequence[str],
    asked: Training,
) -> MaximalLimit | TangentLimit:
    """The limit of a network in training."""
    program = bound(target, sizes, constants)
    optimizer, decay = optimizer_named(asked.optimizer or "sgd"), asked.weight_decay or 0
    chosen: Any = MaximalUpdate(optimizer, weight_decay=decay)
    if regime == "tangent":
        chosen = NeuralTangent(optimizer, decay, tuple(infinite) or infinite_axes(target, program))
    elif infinite:
        raise TyperException("--infinite goes with --regime kernels or --regime tangent.")
    with working(f"deriving {program.name}"):
        found: MaximalLimit | TangentLimit = derive_limit(program, chosen)
        return found


def batches(data: Sequence[Path]) -> list[Any]:
    """One batch of inputs, or two."""
    if not 1 <= len(data) <= 2:
        raise TyperException("kernels are between the inputs in --data FILE: one batch, or two.")
    return [batch(path) for path in data]
