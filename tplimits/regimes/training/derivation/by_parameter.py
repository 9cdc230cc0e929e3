"""Optimizers and decays that are one for all parameters or given by name, the same in both regimes of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sympy import Expr

from tplimits.errors import ProgramError, shown
from tplimits.program.network.parameters import at_rest, parameters, refuse_moved
from tplimits.program.nodes.given import can_be_called, exact_number
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.optimizers.recursion import Optimizer

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def optimizers(network: Program, names: tuple[str, ...], given: Any, regime: str) -> dict[str, Optimizer]:
    """An optimizer for every parameter; ProgramError for what is none."""
    found = _by_name(network, names, given, f"{regime}(optimizer={{…}})", Optimizer, Frozen())
    for name, optimizer in found.items():
        if not isinstance(optimizer, Optimizer):
            raise ProgramError(
                f"{regime}: {shown(optimizer)} for `{name}` is no optimizer; give one such as tp.Adam()."
            )
    return found


def decays(network: Program, names: tuple[str, ...], given: Any, regime: str) -> dict[str, Expr]:
    """An exact decay for every parameter; ProgramError unless 0 ≤ λ < 1."""
    found = _by_name(network, names, given, f"{regime}(weight_decay={{…}})", object, 0)
    return {name: _decay(name, value) for name, value in found.items()}


def _by_name(
    network: Program, names: tuple[str, ...], given: Any, where: str, kind: type, still: Any
) -> dict[str, Any]:
    """One value for every parameter, from one value for all or from a mapping that names them all.

    What is never trained has `still`, and may be left out or, as scalars that are held at a value, be no name at all.
    """
    rest = at_rest(network)
    if not isinstance(given, Mapping) or (kind is not object and isinstance(given, kind)):
        return {name: still if name in rest else given for name in names}
    given = {**dict.fromkeys(rest, still), **given}
    refuse_moved(network, (name for name in rest if given[name] != still), where)
    held = set(parameters(network)).difference(names)
    given = {name: value for name, value in given.items() if name not in held or value != still}
    if set(given) != set(names):
        wrong = sorted(map(str, set(given) ^ set(names)))[0]
        what = "is not given" if wrong in names else "is no parameter"
        raise ProgramError(
            f"{where}: `{wrong}` {what}; the parameters of `{network.name}` that are trained are {', '.join(names)}."
        )
    return {name: given[name] for name in names}


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
