"""A network whose trained weights are multiplied by numbers that are given as data.

Under decoupled weight decay weights are (1 − λ)^t times their initial values, plus what was learned: the number is
s = (1 − λ)^t, one for all parameters with the same λ, and inputs at several steps are several inputs of one network.
With θ the weights as drawn, gradients by sθ are those by θ, divided by s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sympy import Expr, Integer, Mul

from tplimits.program.language.names import free_name
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, axis_symbol, relocated
from tplimits.program.nodes.kinds import (
    Avg,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
    moved,
)
from tplimits.program.nodes.spec import verify

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Decayed:
    """The network on weights sθ; `scales` names the inputs that are s, one for each group of parameters."""

    program: Program
    scales: tuple[str, ...]


class _Writer:
    """Instructions moved on, behind the numbers s.

    A product W x is computed with the weights as drawn: `powers` counts the factors of each s that a stored vector
    lacks, and whoever reads it in a function multiplies by them.
    """

    def __init__(self, network: Program, groups: Sequence[Collection[str]], scales: Sequence[str]) -> None:
        self.network, self.more = network, len(scales)
        self.groups = {name: number for number, names in enumerate(groups) for name in names}
        self.s = [Entry(Integer(number), NO_NEURON) for number in range(self.more)]
        self.powers: list[tuple[int, ...]] = []
        self.instructions: list[Instruction] = [InitialScalar(scale, ()) for scale in scales]
        for instruction in network:
            self._write(instruction)

    def _own(self, name: str) -> tuple[int, ...]:
        """The factors that a parameter is stored without."""
        return tuple(int(self.groups.get(name) == number) for number in range(self.more))

    def _write(self, s: Instruction) -> None:
        powers: tuple[int, ...] = (0,) * self.more
        if isinstance(s, InitialVector):
            powers = self._own(s.name)
        elif isinstance(s, MatMul):
            both = zip(self.powers[s.operand.source], self._own(self.network[s.matrix].name), strict=True)
            # W x with W = sW₀ and x = s x₀ lacks s²: kept as an exponent, no instruction multiplies
            powers = tuple(a + b for a, b in both)
            s = moved(s, self._place)
        elif isinstance(s, Avg):
            powers = self.powers[s.operand.source]
            s = moved(s, self._place)
        elif isinstance(s, Nonlin):
            s = replace(s, body=self.read(s.body))
        self.powers.append(powers)
        self.instructions.append(s)

    def _place(self, position: int) -> int:
        return position + self.more

    def read(self, body: Expr) -> Expr:
        """A body with every entry at its new place, times the factors that it lacks."""
        return body.xreplace({e: self._lacking(e.source) * relocated(e, self._place) for e in body.atoms(Entry)})

    def _lacking(self, position: int) -> Expr:
        return Mul(*(s**power for s, power in zip(self.s, self.powers[position], strict=True)))

    def returned(self, position: int) -> int:
        """The new place of a returned vector, with all its factors."""
        if not any(self.powers[position]):
            return position + self.more
        s = self.network[position]
        # the output is read by others than this program: it has its factors
        body = self.read(Entry(Integer(position), OWN, *map(axis_symbol, s.axes)))
        self.instructions.append(OuterNonlin(f"{s.name}′", s.axes, s.line, body=body, over=s.width or "n"))
        return len(self.instructions) - 1


def decayed(network: Program, groups: Sequence[Collection[str]]) -> Decayed:
    """The readout of a network, without scalars added to it, with each group of trained weights times its own s."""
    scales: list[str] = []
    taken = {*network.names, *network.all_axes, *network.widths, *network.constants}
    for _ in groups:
        scales.append(free_name("decay", {*taken, *scales}, "_"))
    more = len(scales)
    writer = _Writer(network, groups, scales)
    returned = writer.returned(network.returns[0])
    behind = network.rearranged(writer.instructions, lambda position: position + more)
    program = behind.replace(
        names={**{scale: k for k, scale in enumerate(scales)}, **behind.names},
        returns=(returned,),
        returns_tuple=False,
        inputs=(*range(more), *behind.inputs),
        arguments=(*range(more), *behind.arguments),
    )
    verify(program)
    return Decayed(program, tuple(scales))
