"""What both regimes of training require of optimizers: numbers, and moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tplimits.errors import EvaluationError

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer


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
