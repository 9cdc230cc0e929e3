"""What steps that are unrolled are given: exact rates, constants as numbers or as functions of the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.program.network.parameters import parameter_places, started
from tplimits.program.network.schedules import Schedule, moving, parted, rates
from tplimits.program.nodes.given import exact_number
from tplimits.program.nodes.kinds import InitialScalar

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.feature_learning import MaximalRecursion

#: the learning rate of every parameter at a step
Rates = Callable[[int], Mapping[str, Expr]]


def bound(recursion: MaximalRecursion, given: Mapping[str, Any]) -> tuple[MaximalRecursion, Mapping[str, Schedule]]:
    """The recursion with numbers for constants and for the starts of scalars, and constants that move as scalars."""
    network = recursion.network
    schedules, fixed = parted(network, given)
    scalars = {network[p].name for p in parameter_places(network) if isinstance(network[p], InitialScalar)}
    starts = {name: fixed.pop(name) for name in tuple(fixed) if name in scalars}
    for name in fixed:
        if name not in network.constants:
            has = ", ".join((*network.constants, *sorted(scalars))) or "none"
            raise EvaluationError(f"{name}=…: `{network.name}` has no constant or scalar of this name; it has {has}.")
    network = network.bind(**fixed) if fixed else network
    network = started(network, starts) if starts else network
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
