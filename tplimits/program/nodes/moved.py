"""Instructions that read others at other positions, and programs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tplimits.program.nodes.entries import relocated
from tplimits.program.nodes.kinds import Avg, Instruction, MatMul, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

Kind = TypeVar("Kind", bound=Instruction)


def moved(s: Kind, place: Callable[[int], int]) -> Kind:
    """The instruction with what it reads at other positions; initial values read nothing.

    >>> from sympy import Integer
    >>> from tplimits.program.nodes.entries import OWN, Entry
    >>> moved(Avg("c", (), operand=Entry(Integer(1), OWN), over="n"), lambda position: position + 3).operand
    Entry(4, α)
    """
    if isinstance(s, (OuterNonlin, ScalarNonlin)):
        return replace(s, body=relocated(s.body, place))
    if isinstance(s, Avg):
        return replace(s, operand=relocated(s.operand, place))
    if isinstance(s, MatMul):
        return replace(s, matrix=place(s.matrix), operand=relocated(s.operand, place))
    return s


def rearranged(program: Program, instructions: Iterable[Instruction], place: Callable[[int], int]) -> Program:
    """The program with others among its instructions, and each of its own, `moved`, at its place."""
    return program.replace(
        instructions=tuple(instructions),
        returns=tuple(map(place, program.returns)),
        names={name: place(p) for name, p in program.names.items()},
        arguments=tuple(map(place, program.arguments)),
        inputs=tuple(map(place, program.inputs)),
    )


__all__ = ["moved", "rearranged"]
