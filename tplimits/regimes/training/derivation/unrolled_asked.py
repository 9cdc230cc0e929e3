"""What steps that are unrolled are given: exact rates, constants as numbers or as functions of the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.program.network.schedules import Schedule, moving, parted, rates
from tplimits.program.nodes.given import exact_number

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.feature_learning import MaximalRecursion

#: the learning rate of every parameter at a step
Rates = Callable[[int], Mapping[str, Expr]]


def bound(recursion: MaximalRecursion, given: Mapping[str, Any]) -> tuple[MaximalRecursion, Mapping[str, Schedule]]:
    """The recursion with numbers for constants, and those that move as scalars."""
    schedules, fixed = parted(recursion.network, given)
    for name in fixed:
        if name not in recursion.network.constants:
            has = ", ".join(recursion.network.constants) or "none"
            raise EvaluationError(f"{name}=…: `{recursion.network.name}` has no constant of this name; it has {has}.")
    network = recursion.network.bind(**fixed) if fixed else recursion.network
    network, moved = moving(network, schedules)
    return replace(recursion, network=network) if given else recursion, moved


def exact_rates(lr: Any, optimizers: Mapping[str, Optimizer]) -> Rates:
    """Learning rates as exact numbers: one for all or by name, numbers or functions of the step."""
    checked = rates(lr, optimizers)

    def exact(t: int) -> dict[str, Expr]:
        found = {}
        for name, rate in checked.items():
            rate(t)  # refused here if it is no rate
            given = lr.get(name, 0) if isinstance(lr, Mapping) else lr
            found[name] = exact_number("lr", given(t) if callable(given) else given, EvaluationError)
        return found

    return exact
