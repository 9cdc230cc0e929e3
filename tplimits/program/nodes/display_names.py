"""The names of instructions: those a user gave by hand, arguments, local variables in order, numbers for the rest."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tplimits.errors import ProgramError

if TYPE_CHECKING:
    from tplimits.program.language.tracing import Trace
    from tplimits.program.nodes.kinds import Instruction


def display_names(
    trace: Trace, instructions: Sequence[Instruction], where: Mapping[int, int], returned: Mapping[str, int]
) -> tuple[dict[str, int], dict[int, str]]:
    """All names that can be asked for, and the one to print for each instruction; `where` says which a value is."""
    initial = {s.name: p for p, s in enumerate(instructions) if s.name}
    forced: dict[str, int] = {}
    for uid, name in trace.forced.items():
        if uid in where:
            forced[name] = where[uid]
            if initial.get(name, where[uid]) != where[uid]:
                line = trace.values[uid].line
                raise ProgramError(f"{line}: .named({name!r}) takes the name of an argument; choose another name.")
    bindings = [(name, where[uid]) for name, uid in trace.bindings if uid in where]
    others = [(name, where[uid]) for name, uid in (*trace.inherited.items(), *returned.items()) if uid in where]
    numbered = _numbered(bindings)

    printed = {position: name for name, position in forced.items()}
    taken = set(forced)
    for name, position in (*initial.items(), *numbered, *others):
        if position not in printed and name not in taken:
            printed[position] = name
            taken.add(name)
    for position in range(len(instructions)):
        if position not in printed:
            # its number, with as many underscores as it takes
            named = ("_" * i + str(position + 1) for i in itertools.count(1))
            printed[position] = next(c for c in named if c not in taken)

    aliases = {name: where[uid] for name, uid in trace.inherited_aliases.items() if uid in where}
    names = {**dict(bindings), **aliases}  # a name bound several times stands for its last value
    for name, position in (*initial.items(), *numbered, *others):
        names.setdefault(name, position)
    names.update(forced)
    for position, name in printed.items():
        names.setdefault(name, position)
    return names, printed


def _numbered(bindings: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The values of local variables in order, as h, h#2, h#3; h#1 is another way to ask for the first."""
    counts: dict[str, int] = {}
    numbered: list[tuple[str, int]] = []
    for name, position in bindings:
        counts[name] = counts.get(name, 0) + 1
        numbered.append((name if counts[name] == 1 else f"{name}#{counts[name]}", position))
    return [*numbered, *((f"{name}#1", position) for name, position in numbered if counts.get(name, 0) > 1)]
