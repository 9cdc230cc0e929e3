"""What training runs in both regimes have in common, checked before work begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.particles import CONDITIONINGS
from tplimits.pages.files import place_of
from tplimits.program.network.data import inputs_of
from tplimits.program.network.loss import error_signal
from tplimits.program.network.schedules import Rate, rates
from tplimits.program.nodes.given import seed_number, whole_from, width_ratios, word_of
from tplimits.program.optimizers.linear import Frozen

if TYPE_CHECKING:
    from pathlib import Path

    from tplimits.program.network.run_asked import RunAsked
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer


@dataclass(frozen=True)
class Settings:
    """A training run: data by name, a rate for every parameter, particles and how they are drawn."""

    X: Mapping[str, Array]
    error: Any
    rates: Mapping[str, Rate]
    steps: int
    particles: int
    replicates: int
    seed: int
    block: int
    white: bool
    ratios: Mapping[str, float]
    given: Mapping[str, Any]
    checkpoint: Path | None

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(next(iter(self.X.values())))


def checked(network: Program, optimizers: Mapping[str, Optimizer], asked: RunAsked) -> dict[str, Any]:
    """The fields of `Settings`; EvaluationError names what is wrong."""
    data = inputs_of(network, asked.X, "X")
    error_signal(asked.error)  # refused here if it is no function
    word_of("conditioning", asked.conditioning, CONDITIONINGS, EvaluationError)
    ratios = width_ratios(network, asked.ratios, EvaluationError)
    return {
        "X": data,
        "error": asked.error,
        "rates": rates(asked.lr, optimizers),
        "steps": whole_from("steps", asked.steps, 0, EvaluationError),
        "particles": whole_from("particles", asked.particles, 16, EvaluationError),
        "replicates": whole_from("replicates", asked.replicates, 2, EvaluationError),
        "seed": seed_number(asked.seed, EvaluationError),
        "block": whole_from("block", asked.block, 2, EvaluationError),
        "white": asked.conditioning == "white",
        "ratios": {width: float(ratio) for width, ratio in ratios.items()},
        "given": dict(asked.given),
        "checkpoint": None if asked.checkpoint is None else place_of("checkpoint", asked.checkpoint),
    }


def resting(optimizers: Mapping[str, Optimizer], rates: Mapping[str, Rate], steps: int) -> dict[str, Optimizer]:
    """The optimizers, and none for what has rate 0 at all steps: what its update would be divided by is not asked."""
    moved = {name: one for name, one in optimizers.items() if any(rates[name](t) != 0 for t in range(steps))}
    # a gradient that is clipped with others counts for them
    counted = {one.clips_gradient for one in moved.values()} - {None}
    return {
        name: one if name in moved or one.clips_gradient in counted else Frozen() for name, one in optimizers.items()
    }


def need_numbers(optimizers: Mapping[str, Optimizer]) -> None:
    """Refuse optimizers with symbols among their hyperparameters, and those whose moments may not exist."""
    for name, optimizer in optimizers.items():
        if optimizer.open_symbols:
            raise EvaluationError(
                f"{optimizer} for `{name}`: {min(map(str, optimizer.open_symbols))} has no value; give numbers."
            )
        entries = optimizer.entry_by_entry("vector")
        if entries is not None and entries.has_pole:
            raise EvaluationError(
                f"moment not established: {optimizer} for `{name}` is not bounded where gradients vanish; give an "
                "update function that is, such as g/(g**2 + eps) in place of 1/g."
            )
