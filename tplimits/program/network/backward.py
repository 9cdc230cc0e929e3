"""Backpropagation as a program (Yang & Littwin, Def. 2.9.14), for several widths and finite axes.

With x the readout vector, on a width of size n₀, the gradients are

    d y = n₀ ∂⟨x⟩/∂y = ∂(Σ_α x_α)/∂y   for vectors,      d c = ∂⟨x⟩/∂c   for scalars,

and the rules, each a sum over the uses of a value, are (widths: n of the result, k of the operand or slot)

    z = W y                      d y += Wᵀ d z
    c = ⟨z⟩                      d z += (n₀/k) (d c) 1
    y_α = ⟨ψ(x_α; x_β; c)⟩_β     d x_α += ⟨d y_α ∂₀ψ⟩_β + (n/k) ⟨d y_β ∂₁ψ(x_β; x_α; c)⟩_β,   d c += (n/n₀) ⟨d y ∂_cψ⟩.

Axes left on the readout are kept as axes of every gradient, under new names.  Entries that are selected or taken
have gradients of their own (`tplimits.program.language.placing`), so an instruction may have several.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.errors import ProgramError
from tplimits.program.language.placing import Place, gathered, placed, sum_over
from tplimits.program.network.differentiate import partials
from tplimits.program.network.growing import Growing
from tplimits.program.network.parameters import parameter_places
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    DataIndex,
    Entry,
    Lookup,
    axis_symbol,
    slot_symbol,
    width_symbol,
)
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import Avg, Initial, Instruction, MatMul, Nonlin, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.nodes.stated import Line

_DATA = Initial


@dataclass(frozen=True)
class Use:
    """One gradient: that of the entries `indices` of a vector or scalar, or the two factors of one of a matrix.

    For every index of `axes`, those of the output first: `gradient` is the gradient of the entry at `indices`; an index
    that a table gives as −1 has none.  A use z = W x of a matrix adds d z ⊗ x to the gradient of W at `indices`, the
    use z = Wᵀ x (`transposed`) adds x ⊗ d z, with d z the `gradient` and x the `operand`.
    """

    gradient: Entry
    axes: tuple[str, ...]
    indices: tuple[Expr, ...]
    operand: Entry | None = None
    transposed: bool = False


@dataclass(frozen=True)
class Backward:
    """A network with the gradients of its output, for one input.

    `program` is the total program: the network's instructions, then those of the gradients.  `gradients` holds for
    every parameter its uses, `shift_gradients` the same for the scalar added to the output (n₀ ∂shift/∂y for vectors
    y, ∂shift/∂c for scalars); `adjoints` the gradients of the readout for every other instruction, by position, and
    `shift_adjoints` those of the shift.
    `outputs` maps the new names of output axes to those of the readout, `shift_outputs` to those of the shift.
    """

    program: Program
    gradients: Mapping[str, tuple[Use, ...]] = field(hash=False)
    shift_gradients: Mapping[str, tuple[Use, ...]] = field(hash=False)
    adjoints: Mapping[int, tuple[Use, ...]] = field(hash=False)
    shift_adjoints: Mapping[int, tuple[Use, ...]] = field(hash=False)
    outputs: Mapping[str, str] = field(hash=False)
    shift_outputs: Mapping[str, str] = field(hash=False)

    def __post_init__(self) -> None:
        for name in ("gradients", "shift_gradients", "adjoints", "shift_adjoints", "outputs", "shift_outputs"):
            object.__setattr__(self, name, FrozenDict(getattr(self, name)))

    def uses(self, name: str) -> list[tuple[Use, Mapping[str, str]]]:
        """All uses of a parameter, those behind the readout first, each with the output axes that it has."""
        readout = [(use, self.outputs) for use in self.gradients.get(name, ())]
        return readout + [(use, self.shift_outputs) for use in self.shift_gradients.get(name, ())]

    def through(self, position: int) -> tuple[Use, ...]:
        """The gradients at an instruction that is no parameter, behind the readout and through the shift."""
        return (*self.adjoints.get(position, ()), *self.shift_adjoints.get(position, ()))


def backpropagation(program: Program, train: Container[str] | None = None) -> Backward:
    """The total program of a network: forward, then the gradient of its output with respect to everything on the way.

    With `train` the readout is followed to the parameters of these names alone, and others have no uses.

    Raises ProgramError for a program that is no network, and where a size has to be known for the gradient.
    """
    if not program.is_network:
        raise ProgramError(f"`{program.name}` is no network; gradients need one: decorate it by @tp.network.")
    growing = Growing(program)
    # readout and shift apart: gradients of the one scale with n₀, those of the other do not
    main = Walk(growing, "d", train).from_ones(program.returns[0])
    shift = Walk(growing, "d^shift ").from_ones(program.returns[1]) if len(program.returns) > 1 else None
    trained = parameter_places(program)
    return Backward(
        program=growing.finished().released,
        gradients={name: tuple(main.uses.get(p, ())) for p, name in trained.items()},
        shift_gradients={name: tuple(shift.uses.get(p, ())) if shift else () for p, name in trained.items()},
        adjoints={p: tuple(uses) for p, uses in main.uses.items() if p not in trained},
        shift_adjoints={p: tuple(uses) for p, uses in shift.uses.items() if p not in trained} if shift else {},
        outputs=main.outputs,
        shift_outputs=shift.outputs if shift else {},
    )


def _differentiated(program: Program, train: Container[str] | None) -> list[bool]:
    """Which instructions depend on a parameter that is trained, or are one."""
    found: list[bool] = []
    places = parameter_places(program)
    for position, s in enumerate(program):
        trained = position in places and (train is None or s.name in train)
        found.append(trained or any(found[p] for p in s.operands))
    return found


class Walk:
    """One walk from returned values back to the parameters."""

    def __init__(self, growing: Growing, prefix: str, train: Container[str] | None = None) -> None:
        self.growing, self.program, self.prefix = growing, growing.program, prefix
        self.outputs: dict[str, str] = {}
        self.kept: tuple[str, ...] = ()
        self.uses: dict[int, list[Use]] = {}
        self._needed = _differentiated(self.program, train)
        self._readout = self.program.output_width
        self._terms: dict[int, dict[Place, Expr]] = {}

    def from_ones(self, position: int) -> Walk:
        """Walk back from one value, each of its entries by itself: its axes are kept, under new names."""
        self.outputs = {self.growing.axis_like(a, f"{a}_out"): a for a in self.program[position].axes}
        self.kept = tuple(self.outputs)
        self._add(position, Place(self.kept, tuple(map(axis_symbol, self.kept)), self.kept), sympy.S.One)
        self.run()
        return self

    def seed(self, position: int, axes: Iterable[str], gradient: Expr) -> None:
        """Add a gradient of a value, given on some axes: summed over those that the value lacks."""
        own = self.program[position].axes
        for axis in axes:
            if axis not in own:
                gradient = sum_over(self.growing, gradient, axis_symbol(axis), axis)
        self._add(position, Place(own, tuple(map(axis_symbol, own))), gradient)

    def run(self) -> None:
        """Walk back from all that has a gradient."""
        # users come after what they read: when an instruction is reached its gradient is complete
        for position in range(len(self.program) - 1, -1, -1):
            for place, gradient in self._terms.pop(position, {}).items():
                if gradient != 0:
                    self._step(position, place, gradient)

    def _add(self, position: int, place: Place, gradient: Expr) -> None:
        if self._needed[position]:
            terms = self._terms.setdefault(position, {})
            terms[place] = terms.get(place, sympy.S.Zero) + gradient

    def _name(self, position: int, place: Place) -> str:
        s = self.program[position]
        indices = zip(s.axes, place.indices, strict=True)
        chosen = [f"{a}={i}" for a, i in indices if i != axis_symbol(a) and getattr(i, "name", "") not in self.kept]
        return self.prefix + s.name + (f"({', '.join(chosen)})" if chosen else "")

    def _instruction(self, position: int, place: Place, gradient: Expr) -> Entry:
        """The gradient at a place as an entry of an instruction, under the name of what it is a gradient of."""
        s = self.program[position]
        entry = self._entry(gradient, place.axes, s.width, s.line, "")
        indices = entry.indices
        if all(isinstance(i, Symbol) for i in indices) and len(set(indices)) == len(indices) == len(place.axes):
            self.growing.call(entry, self._name(position, place))
        return entry

    def _entry(self, expr: Expr, axes: tuple[str, ...], over: str | None, line: Line, hint: str) -> Entry:
        """An expression as an entry of a vector over a width, or of a scalar, that others may index."""
        fits = isinstance(expr, Entry) and (expr.neuron == NO_NEURON) == (over is None)
        if fits and not any(isinstance(i, (Lookup, DataIndex)) for i in expr.indices):
            return expr
        return self.growing.body(expr, axes, over, line, hint)

    def _running(self, place: Place) -> dict[Symbol, str]:
        return {axis_symbol(a): a for a in place.axes if a not in self.kept}

    def _widths(self, above: str, below: str) -> Expr:
        """The ratio of two widths."""
        return sympy.S.One if above == below else width_symbol(above) / width_symbol(below)

    def _step(self, position: int, place: Place, gradient: Expr) -> None:
        """Send the gradient of an instruction at one place on to what it reads."""
        s = self.program[position]
        at: dict[Expr, Expr] = {axis_symbol(a): i for a, i in zip(s.axes, place.indices, strict=True)}
        # a gradient that is the number 1 needs no instruction where it only multiplies
        if not gradient.is_Number or not isinstance(s, (OuterNonlin, ScalarNonlin, Avg)):
            gradient = self._instruction(position, place, gradient)
            self.uses.setdefault(position, []).append(Use(gradient, place.axes, place.indices))
        if isinstance(s, MatMul):
            self._matmul(s, position, place, gradient, at)
        elif isinstance(s, Avg):
            factor = self._widths(self._readout, s.over)
            self._deliver(s, position, place, s.operand.xreplace(at), factor * gradient, {})
        elif isinstance(s, Nonlin):
            self._nonlin(s, position, place, gradient, at)

    def _matmul(self, s: MatMul, position: int, place: Place, gradient: Expr, at: Mapping[Expr, Expr]) -> None:
        assert isinstance(gradient, Entry)
        operand, indices = s.operand.xreplace(at), tuple(i.xreplace(at) for i in s.matrix_indices)
        # the gradient of a matrix stays a product of two vectors: no instruction holds n² numbers
        use = Use(gradient, place.axes, indices, operand, s.transposed)
        self.uses.setdefault(s.matrix, []).append(use)
        if not self._needed[operand.source]:
            return
        back = MatMul(
            "",
            place.axes,
            s.line,
            matrix=s.matrix,
            transposed=not s.transposed,
            matrix_indices=indices,
            operand=gradient,
            over=self.program[operand.source].width or "n",
        )
        hint = self.program[s.matrix].name + ("" if s.transposed else "ᵀ") + self._name(position, place)
        self._deliver(s, position, place, operand, self.growing.emit(back, hint), {})

    def _nonlin(self, s: Nonlin, position: int, place: Place, gradient: Expr, at: Mapping[Expr, Expr]) -> None:
        """Each derivative of the body times the gradient, delivered to the entries it belongs to."""
        for partial in partials(s.body.xreplace(at), self.growing.running):
            if self._needed[partial.entry.source]:
                self._deliver(s, position, place, partial.entry, gradient * partial.value, dict(partial.bound))

    def _deliver(
        self, s: Instruction, position: int, place: Place, entry: Entry, gradient: Expr, bound: Mapping[Symbol, str]
    ) -> None:
        """Add the gradient of one entry, an expression of the neurons of `s`, to what its instruction has."""
        source = self.program[entry.source]
        found = placed(self.growing, gradient, self.kept, {**self._running(place), **bound}, entry, source)
        if found is None:
            return
        expr, there = found
        hint = f"{self._name(entry.source, Place((), tuple(map(axis_symbol, source.axes))))}←{s.name}"
        if isinstance(s, OuterNonlin):
            expr = self._averaged(s, entry, expr, there.axes, hint)
        # a use says where a parameter was read, the same for all inputs: what data choose is sent back before
        if there.by_data or (there.looks_up and not isinstance(source, _DATA)):
            expr = self._entry(expr, there.axes, source.width, s.line, hint)
            inverted = gathered(self.growing, expr, there, source)
            if inverted is None:
                return
            expr, there = inverted
        self._add(entry.source, there, expr)

    def _averaged(self, s: OuterNonlin, entry: Entry, expr: Expr, axes: tuple[str, ...], hint: str) -> Expr:
        """A derivative of an outer nonlinearity as an expression of the neuron of its source."""
        widths, names = list(s.slot_widths), list(s.slot_names or map(str, s.slots))
        factor, over = sympy.S.One, s.over
        if entry.neuron not in (OWN, NO_NEURON):
            # ψ(x_α; x_β) by x_β: the neuron that the gradient belongs to and the one that is averaged over change
            # places
            number = s.slots.index(entry.neuron)
            expr = expr.xreplace({OWN: entry.neuron, entry.neuron: OWN})
            over, widths[number], names[number] = widths[number], s.over, "α"
            factor = self._widths(s.over, over)
        expr = self._with_slots(s, expr * factor, axes, over, widths, names, hint)
        if entry.neuron != NO_NEURON:
            return expr
        # an average is over one entry: the product gets a place
        expr = self._entry(expr, axes, over, s.line, hint)
        mean = self.growing.emit(Avg("", axes, s.line, operand=expr, over=over), f"mean {hint}")
        return self._widths(over, self._readout) * mean

    def _with_slots(
        self,
        s: OuterNonlin,
        expr: Expr,
        axes: tuple[str, ...],
        over: str,
        widths: list[str],
        names: list[str],
        hint: str,
    ) -> Expr:
        """The mean over those slots that the expression depends on."""
        used = [i for i, slot in enumerate(s.slots) if slot in expr.free_symbols]
        if not used:
            return expr
        slots = tuple(slot_symbol(i + 1) for i in range(len(used)))
        body = expr.xreplace({s.slots[i]: slot for i, slot in zip(used, slots, strict=True)})
        outer = OuterNonlin(
            "",
            axes,
            s.line,
            body=body,
            slots=slots,
            slot_names=tuple(names[i] for i in used),
            slot_widths=tuple(widths[i] for i in used),
            over=over,
        )
        return self.growing.emit(outer, hint)
