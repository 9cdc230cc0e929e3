"""A program to which instructions are added: names, axes and tables that nothing else uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.language.names import free_name
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, axis_symbol, bound_axis_symbol, size_symbol
from tplimits.program.nodes.kinds import InitialScalar, Instruction, Nonlin, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.spec import verify

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.nodes.stated import IndexTable, Line

#: running indices under construction are numbered from here on; `canonical_bound_axes` renumbers them
_FIRST = 1000


class Growing:
    """The instructions of a program, and more after them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.instructions = list(program.instructions)
        self.names = dict(program.names)
        self.sizes, self.size_of = dict(program.sizes), dict(program.size_of)
        self.arrays, self.tables = list(program.arrays), list(program.tables)
        self._axes = {*program.all_axes, *program.widths, *program.constants}
        self._hints: dict[int, str] = {}
        self._known: dict[Instruction, int] = {}
        self._taken = {*self.names, *(s.name for s in self.instructions)}
        self._counter = itertools.count(_FIRST)

    def running(self, axis: str) -> Symbol:
        """A new running index of a finite axis."""
        return bound_axis_symbol(axis, next(self._counter))

    def axis(self, wanted: str) -> str:
        """A new axis, under a name like the one wanted."""
        name = free_name(wanted, self._axes, "_")
        self._axes.add(name)
        return name

    def axis_like(self, axis: str, wanted: str) -> str:
        """A new axis as long as another."""
        name = self.axis(wanted)
        self.size_of[name] = self.program.root_axis(self.size_of.get(axis, axis))
        return name

    def size(self, axis: str) -> Expr:
        """The size of an axis, or its symbol while that is open."""
        root = self.program.root_axis(self.size_of.get(axis, axis))
        return self.sizes.get(root, size_symbol(root))

    def table(self, table: IndexTable) -> sympy.Integer:
        """The number of an integer table."""
        return _number(self.tables, table)

    def array(self, array: IndexTable) -> sympy.Integer:
        """The number of a constant array."""
        return _number(self.arrays, array)

    def emit(self, instruction: Instruction, hint: str) -> Entry:
        """Add an instruction without a name, or find the same one; its entry at its own indices."""
        if isinstance(instruction, Nonlin):
            # bound indices are numbered anew each time: without one numbering equal gradients would not be found again
            instruction = replace(instruction, body=canonical_bound_axes(instruction.body))
        position = self._known.get(instruction)
        if position is None:
            position = self._known[instruction] = len(self.instructions)
            self.instructions.append(instruction)
            self._hints[position] = hint
        return self.entry(position)

    def body(self, body: Expr, axes: Iterable[str], over: str | None, line: Line, hint: str) -> Entry:
        """Add a function of earlier vectors and scalars."""
        if over is None:
            return self.emit(ScalarNonlin("", tuple(axes), line, body=body), hint)
        return self.emit(OuterNonlin("", tuple(axes), line, body=body, over=over), hint)

    def entry(self, position: int) -> Entry:
        """An instruction at its own indices."""
        s = self.instructions[position]
        return Entry(sympy.Integer(position), OWN if s.width else NO_NEURON, *map(axis_symbol, s.axes))

    def call(self, entry: Entry, name: str) -> None:
        """Name an instruction by what it turned out to be; the first name is printed."""
        position = entry.source
        name = self._free(name)
        if position in self._hints and not self.instructions[position].name:
            self.instructions[position] = replace(self.instructions[position], name=name)
        self.names[name] = position

    def _free(self, name: str) -> str:
        name = free_name(name, self._taken)
        self._taken.add(name)
        return name

    def finished(self) -> Program:
        """The program, verified."""
        for position, hint in self._hints.items():
            if not self.instructions[position].name:
                # names at the end: a better one may turn up after an instruction was added
                name = self._free(hint)
                self.instructions[position] = replace(self.instructions[position], name=name)
                self.names[name] = position
        program = self.program.replace(
            instructions=tuple(self.instructions),
            names=self.names,
            sizes=self.sizes,
            size_of=self.size_of,
            arrays=tuple(self.arrays),
            tables=tuple(self.tables),
        )
        verify(program)
        return program


def _number(tables: list[IndexTable], table: IndexTable) -> sympy.Integer:
    if table not in tables:
        tables.append(table)
    return sympy.Integer(tables.index(table))


def with_signal(program: Program, axes: tuple[str, ...]) -> tuple[Program, int]:
    """A program with an error signal χ on some axes as one more argument, and where it stands."""
    name, place = free_name("χ", program.names), len(program)
    more = program.replace(
        instructions=(*program.instructions, InitialScalar(name, axes)),
        names={**program.names, name: place},
        arguments=(*program.arguments, place),
    )
    return more, place
