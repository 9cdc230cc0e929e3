"""What a page computes: the network on many inputs, and behind it its outputs and their softmax, as loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx
import sympy
from sympy import Expr, Integer, Symbol

from tplimits.program.language.names import free_name
from tplimits.program.language.tracing import exact
from tplimits.program.loops.lowering import forward
from tplimits.program.network.samples import dependent
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, Entry, axis_symbol, bound_axis_symbol, width_symbol
from tplimits.program.nodes.kinds import Avg, InitialMatrix, Instruction, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.loops.form import Loops
    from tplimits.program.nodes.program import Program

#: what a page calls f and the softmax of f, with a stroke where the program has a value of this name
OUTPUT, PROBABILITY = "output", "probability"


@dataclass(frozen=True)
class Shown:
    """A network as a page computes it: `names` are those that a reader may ask for, in the order of the program.

    `output` and `probability` are the names of f and of the softmax of f, where there is one.
    """

    program: Program
    names: tuple[str, ...]
    output: str = OUTPUT
    probability: str | None = None

    def position(self, name: str) -> int:
        """The instruction of a name; ProgramError, with near names, where there is none."""
        return self.program.position(name)

    def axes(self, name: str) -> tuple[str, ...]:
        """The finite axes of a value, without that of inputs, as views name them."""
        return tuple(map(axis_name, self.program[self.position(name)].axes))

    def sizes(self, name: str) -> tuple[int, ...]:
        """Their sizes."""
        return tuple(int(self.program.size(a) or 0) for a in self.program[self.position(name)].axes)

    def links(self, name: str) -> tuple[str, ...]:
        """What marks the index of each axis in other values: the axis whose size it has, where that is one alone."""
        own = self.program[self.position(name)].axes
        roots = [self.program.root_axis(a) for a in own]
        return tuple(axis_name(r if roots.count(r) == 1 else a) for a, r in zip(own, roots, strict=True))

    def width(self, name: str) -> str | None:
        """The width over which a value has an entry for every neuron."""
        return self.program[self.position(name)].width

    def on_data(self, name: str) -> bool:
        """Whether a value depends on the input."""
        return self._on_data[self.position(name)]

    @cached_property
    def _on_data(self) -> tuple[bool, ...]:
        return dependent(self.program)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The names of vectors and numbers that are no data: what panels can show."""
        given = set(self.program.inputs)
        of = {name: self.position(name) for name in self.names}
        return tuple(n for n, p in of.items() if p not in given and not isinstance(self.program[p], InitialMatrix))

    def reaches(self, start: str, end: str) -> bool:
        """Whether a later value is computed from another one."""
        source, target = self.position(start), self.position(end)
        return source != target and networkx.has_path(self.program.graph, source, target)

    def separates(self, start: str, end: str) -> bool:
        """Whether a later value depends on the input through another one alone."""
        if not self.reaches(start, end):
            return False
        graph = self.program.graph.copy()
        source, target = self.position(start), self.position(end)
        graph.remove_node(source)
        return not networkx.ancestors(graph, target) & set(self.program.inputs)

    @cached_property
    def loops(self) -> Loops:
        """All values as loops."""
        return forward(self.program, keep=self.values)


def shown(network: Program, settings: Mapping[str, Any]) -> Shown:
    """The program of a page: `settings` holds the power "a_out" of the output, and the name of the "error"."""
    names = _own_names(network)
    readout, *shift = network.returns
    width = str(network[readout].width)
    vector = network[readout]
    average = Avg("", vector.axes, operand=_entry(network, readout), over=width)
    program, _ = _with(network, average, "mean of the readout")
    power = Integer(1) - exact(settings.get("a_out", 1))
    parts = [width_symbol(width) ** power * _entry(program, len(program) - 1), *(_entry(program, p) for p in shift)]
    axes = tuple(dict.fromkeys(a for p in (readout, *shift) for a in program[p].axes))
    program, output = _with(program, ScalarNonlin("", axes, body=sympy.Add(*parts)), OUTPUT)
    if settings.get("error") != "CrossEntropy":
        return Shown(program, (*names, output), output)
    program, probability = _with(program, _softmax(program), PROBABILITY)
    return Shown(program, (*names, output, probability), output, probability)


def axis_name(axis: str) -> str:
    """How views name an axis: "probe" and "neuron" are those of inputs and neurons, whatever a program calls its own.

    >>> axis_name("token"), axis_name("probe")
    ('token', 'probe′')
    """
    return f"{axis}′" if axis in ("probe", "neuron") else axis


def _own_names(program: Program) -> tuple[str, ...]:
    """The names that the author gave, one for each instruction, in order."""
    given = {"return": program.returns[0]} | ({"shift": program.returns[1]} if program.returns[1:] else {})
    own = {n: p for n, p in program.names.items() if not n.startswith("_") and given.get(n) != p}
    first: dict[int, str] = {}
    for name, position in sorted(own.items(), key=lambda item: (item[1], "#" in item[0])):
        first.setdefault(position, name)
    return tuple(first.values())


def _with(program: Program, instruction: Instruction, name: str) -> tuple[Program, str]:
    """The program with one more instruction, and its name, which is new to the program."""
    name = free_name(name, {*program.names, *(s.name for s in program)})
    instructions = (*program.instructions, replace(instruction, name=name))
    return program.replace(instructions=instructions, names={**program.names, name: len(program)}), name


def _entry(program: Program, position: int) -> Expr:
    s = program[position]
    return Entry(Integer(position), NO_NEURON if s.width is None else OWN, *map(axis_symbol, s.axes))


def _softmax(program: Program) -> Instruction:
    """Probabilities along the last axis of the outputs; of a single output f, 1/(1 + e^−f)."""
    f = program[len(program) - 1]
    value = _entry(program, len(program) - 1)
    if not f.axes:
        return ScalarNonlin("", f.axes, body=1 / (1 + sympy.exp(-value)))
    bound = bound_axis_symbol(f.axes[-1], 1)
    other = value.xreplace({axis_symbol(f.axes[-1]): bound})
    return ScalarNonlin("", f.axes, body=sympy.exp(value) / AxisSum(sympy.exp(other), bound, Symbol(f.axes[-1])))
