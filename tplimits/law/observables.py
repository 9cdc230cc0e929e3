"""What a limit and a finite network are compared in: returned values first, then named scalars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tplimits.law.unroll import indices, label
from tplimits.program.nodes.kinds import Avg, InitialScalar, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.program.nodes.program import Program

_SCALARS = (Avg, ScalarNonlin, InitialScalar)


@dataclass(frozen=True)
class ScalarObservable:
    """A scalar of the program, at one index of its axes."""

    label: str
    key: Key


@dataclass(frozen=True)
class BracketObservable:
    """⟨x|y⟩ = lim (1/n) Σ x_α y_α of two vector entries."""

    label: str
    left: Key
    right: Key


Observable = ScalarObservable | BracketObservable


def keys(observable: Observable) -> tuple[Key, ...]:
    """The entries an observable is made of."""
    return (observable.key,) if isinstance(observable, ScalarObservable) else (observable.left, observable.right)


def observables(program: Program) -> tuple[Observable, ...]:
    """Returned scalars, brackets of returned vectors, then the named computed scalars.

    A family gives one observable for each index, a returned vector family all brackets α ≤ β.
    """
    found: dict[str, Observable] = {}
    for number, position in enumerate(program.returns):
        name = f"return[{number}]" if program.returns_tuple else "return"
        for observable in _of(program, name, position):
            found.setdefault(observable.label, observable)
    returned = set(program.returns)
    for name, position in program.names.items():
        instruction = program[position]
        # a second name of one instruction would be judged twice, and cost the level of the check a share
        if position in returned or name != instruction.name or name.startswith("_"):
            continue
        if isinstance(instruction, (Avg, ScalarNonlin)):
            for observable in _of(program, name, position):
                found.setdefault(observable.label, observable)
    return tuple(found.values())


def _of(program: Program, name: str, position: int) -> list[Observable]:
    instruction = program[position]
    keys = [(position, i) for i in indices(program, instruction.axes)]
    labels = [label(name, instruction.axes, i) for _, i in keys]
    if isinstance(instruction, _SCALARS):
        return [ScalarObservable(text, key) for text, key in zip(labels, keys, strict=True)]
    return [
        BracketObservable(f"⟨{labels[i]}|{labels[j]}⟩", keys[i], keys[j])
        for i in range(len(keys))
        for j in range(i, len(keys))
    ]
