"""The kets and scalars of a width limit by the names a user gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits.errors import ProgramError, shown
from tplimits.law.unroll import indices, label
from tplimits.program.nodes.given import whole_number
from tplimits.program.nodes.kinds import InitialMatrix

if TYPE_CHECKING:
    from tplimits.law.kets import Ket, Key
    from tplimits.law.state import Derivation
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Names:
    """Looks a name up: "h", "h" with axis values, or "h[token=0]"; ProgramError says what there is instead."""

    program: Program
    state: Derivation

    def family(self, name: str, index: Mapping[str, int], view: Any) -> Any:
        base, given = _parsed(name)
        position = self.program.position(base)
        given.update({axis: _index(axis, value) for axis, value in index.items()})
        axes = self.program[position].axes
        strange = set(given) - set(axes)
        if strange:
            raise ProgramError(f"`{base}` has no axis `{min(strange)}`; its axes are ({', '.join(axes)}).")
        free = tuple(a for a in axes if a not in given)
        cells = []
        for choice in indices(self.program, free):
            chosen = {**given, **dict(zip(free, choice, strict=True))}
            cells.append(view((position, tuple(chosen[a] for a in axes))))
        if not free:
            return cells[0]
        shape = tuple(int(self.program.size(a) or 0) for a in free)
        return sympy.ImmutableDenseNDimArray(cells, shape)

    def ket(self, key: Key) -> Ket:
        if key not in self.state.kets:
            raise ProgramError(self._missing(key, "ket", self.state.scalars, "scalar"))
        return self.state.kets[key]

    def image(self, key: Key) -> Ket:
        ket = self.ket(key)
        if ket.hat is None:
            raise ProgramError(f"`{ket.label}` is not an image W x: only those have a hat and a dot part.")
        return ket

    def scalar(self, key: Key) -> Expr:
        if key not in self.state.scalars:
            raise ProgramError(self._missing(key, "scalar", self.state.kets, "ket"))
        return self.state.scalars[key]

    def _missing(self, key: Key, wanted: str, other: Mapping[Key, Any], call: str) -> str:
        instruction = self.program[key[0]]
        if isinstance(instruction, InitialMatrix):
            return f"`{instruction.name}` is a matrix; matrices have no {wanted}."
        if key in other:
            return f"`{instruction.name}` is not a {wanted}: ask for .{call}({instruction.name!r})."
        return f"`{self.state.label(key)}` is out of range."

    def vector(self, name: str) -> Ket:
        base, given = _parsed(name)
        position = self.program.position(base)
        axes = self.program[position].axes
        if set(given) != set(axes):
            example = label(base, axes, (0,) * len(axes))
            raise ProgramError(f"`{name}` is a family over ({', '.join(axes)}): name one entry, such as {example!r}.")
        return self.ket((position, tuple(given[a] for a in axes)))


def _index(axis: str, value: Any) -> int:
    number = whole_number(value)
    if number is None:
        raise ProgramError(f"{axis}={value!r}: the index of an axis is a whole number.")
    return number


def _parsed(name: str) -> tuple[str, dict[str, int]]:
    """ "A[token=0,key=1]" as ("A", {"token": 0, "key": 1}); other brackets belong to the name."""
    if not isinstance(name, str):
        raise ProgramError(f'{shown(name)} is not a name; names are text, as in .ket("h").')
    base, bracket, rest = name.partition("[")
    if not bracket or "=" not in rest or not rest.endswith("]"):
        return name, {}
    pairs = [part.split("=") for part in rest[:-1].split(",")]
    try:
        return base, {axis.strip(): int(value) for axis, value in pairs}
    except ValueError:
        return name, {}
