"""A network on several inputs at once: one more finite axis on everything that depends on the data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Expr, Integer, Symbol

from tplimits.program.language.names import free_name
from tplimits.program.nodes.entries import DataIndex, Entry, axis_symbol
from tplimits.program.nodes.spec import verify
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the axis of inputs
SAMPLE = "sample"


def dependent(program: Program) -> tuple[bool, ...]:
    """Which instructions are data or depend on it."""
    found: list[bool] = []
    for position, s in enumerate(program):
        found.append(position in program.inputs or any(found[p] for p in s.operands))
    return tuple(found)


def with_samples(program: Program) -> tuple[Program, str]:
    """The network on many inputs with the same parameters, and the name of the axis that counts them.

    It stands first on the data and on all that depends on it.
    """
    return along_samples(program, dependent(program))


def along_samples(program: Program, on_data: tuple[bool, ...]) -> tuple[Program, str]:
    """A program on many inputs at once, of which these instructions depend on the input, and the name of the axis."""
    axis = free_name(SAMPLE, {*program.all_axes, *program.widths, *program.constants}, "_")
    index = axis_symbol(axis)
    instructions = tuple(
        replace(s, axes=(axis, *s.axes)).changed(lambda expr: at_sample(expr, index, on_data)) if on_data[p] else s
        for p, s in enumerate(program)
    )
    found = program.replace(instructions=instructions)
    verify(found)
    return found, axis


def at_sample(expr: Expr, index: Symbol, on_data: tuple[bool, ...]) -> Expr:
    """An expression with the entries of what depends on data read at an input."""
    data = {d: DataIndex(Integer(d.source), index, *d.indices) for d in found(expr, DataIndex)}
    swap: dict[Expr, Expr] = {}
    for e in found(expr, Entry):
        first = (index,) if on_data[e.source] else ()
        swap[e] = Entry(Integer(e.source), e.neuron, *first, *(i.xreplace(data) for i in e.indices))
    return expr.xreplace({**data, **swap})
