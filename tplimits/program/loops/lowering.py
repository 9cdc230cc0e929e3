"""From instructions on a batch of inputs to loops over arrays.

Every instruction that is needed fills an array.  Sums inside bodies, and functions that cost more than a few
operations, fill arrays of their own, at the indices that they depend on; the same one is computed once, wherever it
stands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.loops.form import DATA, GRADIENT, OUTPUT, PARAMETER, VALUE, Array, Loops, Read
from tplimits.program.loops.merging import merged
from tplimits.program.loops.splitting import split
from tplimits.program.loops.statements import Statements
from tplimits.program.network.samples import at_sample, dependent, with_samples
from tplimits.program.network.total import cotangent, differentiable
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, axis_symbol, sources, width_symbol
from tplimits.program.nodes.kinds import (
    Avg,
    Initial,
    InitialMatrix,
    InitialScalar,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.walk import Walker

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.nodes.program import Program


def forward(network: Program, keep: Collection[str] | None = None, a_out: Expr = sympy.S.Zero) -> Loops:
    """The outputs of a network on many inputs, f = n₀^(−a_out) Σ_α x_α + shift; `keep` names values that stay.

    Raises ProgramError for a program that is no network, or has open constants.
    """
    network = _stated(network)
    parts = split(network.released)
    program, sample = with_samples(parts.program)
    lowering = Lowering(program, sample, parts)
    kept = {name: parts.places[network.position(name)] for name in keep or ()}
    lowering.run({*program.returns, *kept.values()})
    lowering.outputs(a_out)
    return lowering.finished(kept)


def training(network: Program, a_out: Expr, train: Collection[str] | None = None) -> Loops:
    """Outputs and gradients: f = n₀^(−a_out) Σ_α x_α + shift, and ∂(Σ χ f)/∂w for each parameter w in `train`.

    The array that holds χ is called chi; gradients have the titles of their parameters.
    """
    parts = split(_stated(network))
    sampled, sample = with_samples(parts.program)
    found = cotangent(sampled, sample, a_out, train)
    lowering = Lowering(differentiable(found.program), sample, parts)
    uses = {name: found.gradients[name] for name in (train if train is not None else found.gradients)}
    ends = {e.source for many in uses.values() for use in many for e in (use.gradient, use.operand) if e is not None}
    lowering.signal = found.signal
    lowering.run({*found.program.returns, *ends})
    lowering.outputs(a_out)
    for name, many in uses.items():
        lowering.gradient(name, many)
    return lowering.finished({}, ("f", *(a.name for a in lowering.arrays.values() if a.role == GRADIENT)))


def _stated(network: Program) -> Program:
    """The network with the constants that have a value written out."""
    values = {name: value for name, value in network.constants.items() if value is not None}
    return network.bind(**values) if values else network


class Lowering(Statements, Walker[None]):
    """The statements of a program, instruction by instruction."""

    def run(self, needed: Collection[int]) -> None:
        """Statements of all that some instructions rest on."""
        wanted = set(needed)
        for position in range(len(self.program) - 1, -1, -1):
            if position in wanted:
                wanted.update(self.program[position].operands)
                # an instruction of data as far as the program knows: what it is the maximum of is not among its
                # operands
                if position in self.parts.maxima:
                    wanted |= sources(self.parts.maxima[position][0])
        for position, s in enumerate(self.program):
            if position in wanted or (isinstance(s, Initial) and position not in self.parts.maxima):
                self.at, self.extent_of = position, {axis_symbol(a): self.program.root_axis(a) for a in s.axes}
                self.read(s)

    def initial_scalar(self, s: InitialScalar, *at: object) -> None:
        if self.at not in self.parts.maxima:
            self._initial(s)
            return
        inside, bound = self.parts.maxima[self.at]
        self.extent_of |= {index: self.program.root_axis(axis) for index, axis in bound}
        inside = at_sample(inside, axis_symbol(self.sample), dependent(self.parts.program))
        target = self.place[self.at] = self.declare("m", self._extents(s), VALUE)
        self.state(target, self._symbols(s), self.entry(inside), tuple(i for i, _ in bound), largest=True)

    def _initial(self, s: Initial, *at: object) -> None:
        if self.at == self.signal:
            self.place[self.at] = "chi"
            self.arrays["chi"] = Array("chi", self._extents(s), DATA, s.name)
            return
        role = DATA if self.at in self.program.inputs else PARAMETER
        whole = isinstance(s, InitialScalar) and s.of is not None
        self.place[self.at] = self.declare("a", self._extents(s), role, s.name, whole=whole)

    initial_matrix = initial_vector = _initial

    def _new(self, s: Instruction) -> str:
        if s.width is not None:
            self.extent_of[OWN] = s.width
        name = self.place[self.at] = self.declare("a", self._extents(s), VALUE, s.name)
        return name

    def matmul(self, s: MatMul, *at: object) -> None:
        target, matrix = self._new(s), self.program[s.matrix]
        assert isinstance(matrix, InitialMatrix)
        other = Symbol("β", integer=True)
        self.extent_of[other] = matrix.rows if s.transposed else matrix.columns
        operand = self.entry(Entry(s.operand.args[0], other, *s.operand.indices))
        found = dict(zip(matrix.axes, map(self.index, s.matrix_indices), strict=True))
        sides = (other, OWN) if s.transposed else (OWN, other)
        read = Read(Symbol(self.place[s.matrix]), *(found[a] for a in self._ordered(matrix)), *sides)
        self.state(target, self._symbols(s), read * operand, (other,))

    def average(self, s: Avg, *at: object) -> None:
        target = self._new(s)
        self.extent_of[OWN] = s.over
        self.state(target, self._symbols(s), self.entry(s.operand), (OWN,), scale=1 / width_symbol(s.over))

    def scalar(self, s: ScalarNonlin, *at: object) -> None:
        target = self._new(s)
        self.fill(target, self._symbols(s), s.body)

    def outer(self, s: OuterNonlin, *at: object) -> None:
        target = self._new(s)
        self.extent_of |= dict(zip(s.slots, s.slot_widths, strict=True))
        used = [
            (slot, width) for slot, width in zip(s.slots, s.slot_widths, strict=True) if slot in s.body.free_symbols
        ]
        scale = sympy.Mul(*(1 / width_symbol(width) for _, width in used))
        self.fill(target, self._symbols(s), s.body, tuple(slot for slot, _ in used), scale)

    def outputs(self, a_out: Expr) -> str:
        """f = n₀^(−a_out) Σ_α x_α + shift, an array of the axes of the outputs."""
        readout, *shift = (self.program[p] for p in self.program.returns)
        axes = tuple(dict.fromkeys(a for p in self.program.returns for a in self._ordered(self.program[p])))
        # inputs last, as everywhere: they are what loops step along by vectors
        axes = (*(a for a in axes if a != self.sample), self.sample)  # also where nothing depends on the inputs
        self.extent_of = {axis_symbol(a): self.program.root_axis(a) for a in axes} | {OWN: self.program.output_width}
        indices = tuple(map(axis_symbol, axes))
        self.arrays["f"] = Array("f", tuple(self.extent_of[i] for i in indices), OUTPUT)
        at = self.program.returns
        read = self.entry(Entry(sympy.Integer(at[0]), OWN, *map(axis_symbol, readout.axes)))
        self.state("f", indices, read, (OWN,), width_symbol(self.program.output_width) ** -a_out)
        for position, s in zip(at[1:], shift, strict=True):
            own = Entry(sympy.Integer(position), NO_NEURON, *map(axis_symbol, s.axes))
            self.state("f", indices, self.entry(own), add=True)
        return "f"

    def gradient(self, name: str, uses: Collection[Use]) -> None:
        """The gradient of one parameter, the sum of its uses."""
        s = self.program[self.program.initial_names[name]]
        assert isinstance(s, Initial)
        extents = self._extents(s)
        target = self.declare("g", extents, GRADIENT, name)
        n0 = width_symbol(self.program.output_width)
        # gradients of vectors and matrices were written n₀ times as large
        scale = sympy.S.One if isinstance(s, InitialScalar) else 1 / n0
        plain = len(uses) == 1 and all(
            len(set(use.indices)) == len(use.indices) and all(isinstance(i, Symbol) for i in use.indices)
            for use in uses
        )
        # several uses, or places that are looked up, add to what is there: it has to be 0 first
        if not plain:
            running = tuple(Symbol(f"j{k}", integer=True) for k in range(len(extents)))
            self.extent_of = dict(zip(running, extents, strict=True))
            self.state(target, running, sympy.S.Zero)
        for use in uses:
            self._use(target, s, use, scale, add=not plain)

    def _use(self, target: str, s: Instruction, use: Use, scale: Expr, add: bool) -> None:
        """Add what one use of a parameter gives to its gradient."""
        self.extent_of = {axis_symbol(a): self.program.root_axis(a) for a in use.axes}
        found = {a: self.index(i) for a, i in zip(s.axes, use.indices, strict=True)}
        places = tuple(found[a] for a in self._ordered(s))
        running = set().union(*(p.free_symbols for p in places))
        summed = tuple(axis_symbol(a) for a in use.axes if axis_symbol(a) not in running)
        if not isinstance(s, InitialMatrix):
            neuron = () if s.width is None else (OWN,)
            self.extent_of |= dict.fromkeys(neuron, s.width or "")
            self.state(target, (*places, *neuron), self.entry(use.gradient), summed, scale, add=add)
            return
        assert use.operand is not None
        row, column = Symbol("β1", integer=True), Symbol("β2", integer=True)
        self.extent_of |= {row: s.rows, column: s.columns}
        neurons = (column, row) if use.transposed else (row, column)
        left, right = (
            self.entry(Entry(e.args[0], neuron, *e.indices))
            for e, neuron in zip((use.gradient, use.operand), neurons, strict=True)
        )
        self.state(target, (*places, row, column), left * right, summed, scale, add=add)

    def finished(self, kept: Mapping[str, int], wanted: Collection[str] = ("f",)) -> Loops:
        """The loops; arrays that only one statement reads are written into it."""
        names = {name: self.place[position] for name, position in kept.items()}
        extents: dict[str, int | None] = dict.fromkeys((self.sample, *self.program.widths))
        for extent in dict.fromkeys(e for a in self.arrays.values() for e in a.extents if e not in extents):
            size = self.program.size(extent)
            extents[extent] = None if size is None else int(size)
        loops = Loops(
            extents, tuple(self.arrays.values()), tuple(self.statements), names, self.sample, self.program.widths
        )
        return merged(loops, {*wanted, *names.values()})
