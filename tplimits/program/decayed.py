"""A network whose trained weights are all multiplied by one number, given as data.

Under decoupled weight decay the weights are (1 − λ)^t times their initial values, plus what was learned: the number is
s = (1 − λ)^t, and inputs at several steps are several inputs of one network.  With θ the weights as drawn, gradients by
sθ are those by θ, divided by s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sympy import Expr, Integer

from tplimits.program.entries import NO_NEURON, OWN, Entry, axis_symbol
from tplimits.program.nodes import Avg, InitialScalar, InitialVector, Instruction, MatMul, OuterNonlin, ScalarNonlin
from tplimits.program.program import Program
from tplimits.program.spec import verify


@dataclass(frozen=True)
class Decayed:
    """The network on weights sθ; `scale` names the input that is s."""

    program: Program
    scale: str


class _Writer:
    """Instructions moved by one place, behind the number s.

    A product W x is computed with the weights as drawn: `power` counts the factors s that a stored vector lacks, and
    whoever reads it in a function multiplies by them.
    """

    def __init__(self, network: Program, trained: frozenset[str], scale: str) -> None:
        self.network, self.trained = network, trained
        self.s = Entry(Integer(0), NO_NEURON)
        self.power: list[int] = []
        self.instructions: list[Instruction] = [InitialScalar(scale, ())]
        for instruction in network:
            self._write(instruction)

    def _write(self, s: Instruction) -> None:
        power = 0
        if isinstance(s, InitialVector):
            power = int(s.name in self.trained)
        elif isinstance(s, MatMul):
            assert s.operand is not None
            power = self.power[s.operand.source] + int(self.network[s.matrix].name in self.trained)
            s = replace(s, matrix=s.matrix + 1, operand=self._moved(s.operand))
        elif isinstance(s, Avg):
            assert s.operand is not None
            power = self.power[s.operand.source]
            s = replace(s, operand=self._moved(s.operand))
        elif isinstance(s, (OuterNonlin, ScalarNonlin)):
            s = replace(s, body=self.read(s.body))
        self.power.append(power)
        self.instructions.append(s)

    def _moved(self, entry: Entry) -> Entry:
        return Entry(Integer(entry.source + 1), *entry.args[1:])

    def read(self, body: Expr) -> Expr:
        """A body with every entry at its new place, times the factors that it lacks."""
        return body.xreplace({e: self.s ** self.power[e.source] * self._moved(e) for e in body.atoms(Entry)})

    def returned(self, position: int) -> int:
        """The new place of a returned vector, with all its factors."""
        if not self.power[position]:
            return position + 1
        s = self.network[position]
        body = self.read(Entry(Integer(position), OWN, *map(axis_symbol, s.axes)))
        self.instructions.append(OuterNonlin(f"{s.name}′", s.axes, s.line, body=body, over=s.width or "n"))
        return len(self.instructions) - 1


def decayed(network: Program, trained: Iterable[str]) -> Decayed:
    """The readout of a network, without scalars added to it, at s times the trained weights.

    >>> import tplimits as tp
    >>> @tp.network
    ... def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.relu(tp.sum(U * ξ, over="d"))
    >>> [s.name for s in decayed(shallow, ["U", "v"]).program]
    ['decay', 'ξ', 'U', 'v', 'return']
    """
    scale = "decay"
    while scale in {*network.names, *network.all_axes, *network.widths, *network.constants}:
        scale += "_"
    writer = _Writer(network, frozenset(trained), scale)
    returned = writer.returned(network.returns[0])
    program = network.replace(
        instructions=tuple(writer.instructions),
        names={scale: 0, **{name: p + 1 for name, p in network.names.items()}},
        returns=(returned,),
        returns_tuple=False,
        inputs=(0, *(p + 1 for p in network.inputs)),
        arguments=(0, *(p + 1 for p in network.arguments)),
    )
    verify(program)
    return Decayed(program, scale)


__all__ = ["Decayed", "decayed"]
