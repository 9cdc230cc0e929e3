"""What a page computes: the network on many inputs, and behind it its outputs and their softmax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Integer, Symbol

from tplimits.program.language.tracing import exact
from tplimits.program.network.samples import with_samples
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    AxisSum,
    Entry,
    axis_symbol,
    bound_axis_symbol,
    width_symbol,
)
from tplimits.program.nodes.kinds import Avg, InitialMatrix, Instruction, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: what a page calls f and the softmax of f; a program's own value of that name goes before it
OUTPUT, PROBABILITY = "output", "probability"


@dataclass(frozen=True)
class Shown:
    """A network as a page computes it: `program` has the axis `sample` of inputs first on all that depends on data.

    `names` are those that a reader may ask for, in the order of the program, with the positions they stand for.
    """

    program: Program
    sample: str
    names: Mapping[str, int]

    def axes(self, position: int) -> tuple[str, ...]:
        """The finite axes of a value without that of inputs."""
        return tuple(a for a in self.program[position].axes if a != self.sample)

    def sizes(self, position: int) -> tuple[int, ...]:
        """Their sizes."""
        return tuple(int(self.program.size(a) or 0) for a in self.axes(position))

    def is_ket(self, position: int) -> bool:
        """Whether it has an entry for every neuron."""
        return self.program[position].width is not None

    def on_data(self, position: int) -> bool:
        """Whether it depends on the input."""
        return self.sample in self.program[position].axes

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The names of vectors and numbers that are no data: what panels can show."""
        given = set(self.program.inputs)
        kinds = {name: self.program[p] for name, p in self.names.items() if p not in given}
        return tuple(name for name, s in kinds.items() if not isinstance(s, InitialMatrix))


def shown(network: Program, settings: Mapping[str, Any]) -> Shown:
    """The program of a page: `settings` holds the power "a_out" of the output, and values of constants."""
    constants = {name: exact(value) for name, value in settings.get("constants", {}).items()}
    program, sample = with_samples(network.bind(**constants))
    names = _own_names(program)
    readout, *shift = program.returns
    vector = program[readout]
    average = Avg(_fresh("mean of the readout", program), vector.axes, operand=_entry(program, readout), over=vector.width)
    program = _with(program, average)
    power = Integer(1) - exact(settings.get("a_out", 1))
    parts = [width_symbol(str(vector.width)) ** power * _entry(program, len(program) - 1)]
    parts += [_entry(program, p) for p in shift]
    axes = tuple(dict.fromkeys(a for p in (readout, *shift) for a in program[p].axes))
    program = _with(program, ScalarNonlin(_fresh(OUTPUT, program), axes, body=sympy.Add(*parts)))
    names.setdefault(OUTPUT, len(program) - 1)
    if settings.get("loss") == "cross_entropy":
        program = _with(program, _softmax(program, sample))
        names.setdefault(PROBABILITY, len(program) - 1)
    return Shown(program, sample, names)


def _own_names(program: Program) -> dict[str, int]:
    """The names that the author gave, in the order of the instructions: the last binding of each, and earlier ones."""
    own = {n: p for n, p in program.names.items() if not n.startswith("_") and n != "return"}
    first: dict[int, str] = {}
    for name, position in sorted(own.items(), key=lambda item: (item[1], "#" in item[0])):
        first.setdefault(position, name)
    return {name: position for position, name in first.items()}


def _with(program: Program, instruction: Instruction) -> Program:
    return program.replace(instructions=(*program.instructions, instruction))


def _fresh(name: str, program: Program) -> str:
    taken = {s.name for s in program}
    while name in taken:
        name += "′"
    return name


def _entry(program: Program, position: int) -> Expr:
    s = program[position]
    neuron = NO_NEURON if s.width is None else OWN
    return Entry(Integer(position), neuron, *map(axis_symbol, s.axes))


def _softmax(program: Program, sample: str) -> Instruction:
    """Probabilities along the last axis of the outputs that is not that of inputs; of a single output f, 1/(1 + e^−f)."""
    f = program[len(program) - 1]
    axes = [a for a in f.axes if a != sample]
    value = _entry(program, len(program) - 1)
    if not axes:
        body = 1 / (1 + sympy.exp(-value))
    else:
        bound = bound_axis_symbol(axes[-1], 1)
        other = value.xreplace({axis_symbol(axes[-1]): bound})
        body = sympy.exp(value) / AxisSum(sympy.exp(other), bound, Symbol(axes[-1]))
    return ScalarNonlin(_fresh(PROBABILITY, program), f.axes, body=body)
