"""Optimizers and decays that are one for all parameters or given by name, the same in both regimes of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.errors import ProgramError, shown
from tplimits.program.network.parameters import at_rest, parameters, refuse_moved
from tplimits.program.network.schedules import of_each
from tplimits.program.nodes.given import can_be_called, exact_number
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.optimizers.recursion import Optimizer

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def optimizers(network: Program, names: tuple[str, ...], given: Any, regime: str) -> dict[str, Optimizer]:
    """An optimizer for every parameter, from one for all or a mapping that names them all; ProgramError otherwise."""
    where, still = f"{regime}(optimizer={{…}})", Frozen()
    if not isinstance(given, Mapping):
        rest = at_rest(network)
        found = {name: still if name in rest else given for name in names}
    else:
        found = _without_held(network, names, given, where, still)
        if set(found) != set(names):
            wrong = sorted(map(str, set(found) ^ set(names)))[0]
            what = "is not given" if wrong in names else "is no parameter"
            trained = ", ".join(names)
            raise ProgramError(
                f"{where}: `{wrong}` {what}; the parameters of `{network.name}` that are trained are {trained}."
            )
    for name, optimizer in found.items():
        if not isinstance(optimizer, Optimizer):
            raise ProgramError(
                f"{regime}: {shown(optimizer)} for `{name}` is no optimizer; give one such as tp.Adam()."
            )
    return {name: found[name] for name in names}


def decays(network: Program, moved_by: Mapping[str, Optimizer], given: Any, regime: str) -> dict[str, Expr]:
    """An exact decay for every parameter; ProgramError unless 0 ≤ λ < 1.

    A mapping is read as one of learning rates is: what never moves may be left out.
    """
    if not isinstance(given, Mapping):
        rest = at_rest(network)
        found = {name: 0 if name in rest else given for name in moved_by}
    else:
        where = f"{regime}(weight_decay={{…}})"
        named = _without_held(network, tuple(moved_by), given, where, 0)
        found = of_each("weight_decay", "decay", named, moved_by, refusal=ProgramError)
    return {name: _decay(name, value) for name, value in found.items()}


def _without_held(
    network: Program, names: tuple[str, ...], given: Mapping[str, Any], where: str, still: Any
) -> dict[str, Any]:
    """A mapping with `still` for what is never trained, and without scalars that are held at a value.

    Either may be left out, or be named with `still`.
    """
    rest = at_rest(network)
    given = {**dict.fromkeys(rest, still), **given}
    refuse_moved(network, (name for name in rest if given[name] != still), where)
    held = set(parameters(network)).difference(names)
    return {name: value for name, value in given.items() if name not in held or value != still}


def _decay(name: str, value: Any) -> Expr:
    if can_be_called(value, 0):
        raise ProgramError(
            f"weight_decay for `{name}` is a function of the step: limits are derived with one number for all steps. "
            "Give a number; tp.watch takes functions, for networks and for limits without matrices."
        )
    number = exact_number("weight_decay", value, ProgramError)
    if number.is_negative or not number < 1:
        raise ProgramError(
            f"weight_decay={shown(value)} for `{name}`: a step keeps 1 − weight_decay; give 0 or more, below 1."
        )
    return number
