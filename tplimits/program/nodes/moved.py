"""Instructions that read others at other positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tplimits.program.nodes.entries import relocated
from tplimits.program.nodes.kinds import Avg, Instruction, MatMul, OuterNonlin, ScalarNonlin

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


__all__ = ["moved"]
