"""A program called inside another: its instructions are replayed in the outer trace."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import sympy
from sympy import Expr, Integer

from tplimits.program.language.axes import IndexValue
from tplimits.program.language.matrices import MatrixValue
from tplimits.program.language.refusals import Refusals
from tplimits.program.language.tracing import Trace, active, fail
from tplimits.program.language.values import Origin, Value
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    Entry,
    Lookup,
    bound_axis_symbol,
    constant_symbol,
    width_symbol,
)
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
)

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


class Replay:
    """One call of a program: inner instructions to outer values."""

    def __init__(self, program: Program, trace: Trace) -> None:
        self.program, self.trace = program, trace
        # calls are numbered, so that names of two calls of one program differ
        number = trace.calls[program.name] = trace.calls.get(program.name, 0) + 1
        self.prefix = f"{program.name}.{number}."
        self.made: dict[int, Value | MatrixValue] = {}
        self.width: dict[str, str] = {}
        self.substitution: dict[Expr, Expr] = {}

    def take_arguments(self, given: Mapping[int, Any]) -> None:
        """Check what the caller passed and match widths."""
        for position, value in given.items():
            inner = self.program[position]
            if isinstance(inner, InitialMatrix):
                if not isinstance(value, MatrixValue):
                    self._wrong(inner, "a matrix", value)
                for mine, theirs in zip((inner.rows, inner.columns), value.sides, strict=True):
                    # widths of the inner program are those of what it is given; the same one twice has to be the same
                    # outside
                    self._match(mine, theirs, inner)
            else:
                value = self._number_or_vector(inner, value)
            self._match_axes(inner, value)
            self.made[position] = value

    def _number_or_vector(self, inner: Instruction, value: Any) -> Value:
        if isinstance(value, (MatrixValue, IndexValue)):
            self._wrong(inner, "a vector" if inner.width else "a scalar", value)
        if not isinstance(value, Value):
            value = Value(self.trace, self.trace.constant(value), None, ())
        if value.neurons:
            fail(f"`{inner.name}` of `{self.program.name}` given {value.describe()}", "average the neuron index first")
        if inner.width is None and value.width is not None:
            self._wrong(inner, "a scalar", value)
        if inner.width is not None:
            if value.width is None:
                self._wrong(inner, "a vector", value)
            self._match(inner.width, value.width, inner)
        return value

    def _match_axes(self, inner: Instruction, value: Value | MatrixValue) -> None:
        program, has = self.program, f"given a value with axes ({', '.join(value.axes)})"
        for axis in inner.axes:
            if axis not in value.axes:
                fail(
                    f"`{inner.name}` of `{program.name}` needs the axis `{axis}`, {has}",
                    "rename an axis, or pass a value that has it",
                )
        for axis in value.axes:
            if axis not in inner.axes and axis in program.all_axes:
                fail(
                    f"`{inner.name}` of `{program.name}` {has}, but `{program.name}` uses `{axis}` for something else",
                    f'rename it: .rename({axis}="…")',
                )

    def _wrong(self, inner: Instruction, wanted: str, value: Any) -> NoReturn:
        what = value.describe() if isinstance(value, Refusals) else f"a value of type {type(value).__name__}"
        fail(f"`{inner.name}` of `{self.program.name}` given {what}", f"it takes {wanted}")

    def _match(self, inner: str, outer: str, argument: Instruction) -> None:
        if self.width.setdefault(inner, outer) != outer:
            fail(
                f"`{argument.name}` of `{self.program.name}` given on width `{outer}`, but its width `{inner}` is "
                f"already `{self.width[inner]}` here",
                "pass matrices and vectors whose widths agree",
            )

    def settle(self, constants: Mapping[str, Any]) -> None:
        """Declare the inner program's widths, axes and constants outside."""
        trace, program = self.trace, self.program
        for name in program.widths:
            if name not in self.width:
                if name in trace.axes or name in trace.constants:
                    what = "finite axis" if name in trace.axes else "constant"
                    fail(f"the width `{name}` of `{program.name}`, which is a {what} here", "rename one of the two")
                trace.widths.setdefault(name)
                self.width[name] = name
            self.substitution[width_symbol(name)] = width_symbol(self.width[name])
        for axis in program.all_axes:
            trace.declare(axis)
        for new, old in program.size_of.items():
            trace.link(new, old)
        for axis, size in program.sizes.items():
            if size.is_Integer:
                trace.set_size(axis, int(size))
        for name, default in program.constants.items():
            if name in constants:
                value = constants[name]
                if isinstance(value, Refusals):
                    fail(
                        f"the constant `{name}` of `{program.name}` given {value.describe()}",
                        f"constants are numbers or symbols: annotate `{name}` as tp.Scalar to pass a value",
                    )
                self.substitution[constant_symbol(name)] = trace.constant(value)
            elif default is not None:
                self.substitution[constant_symbol(name)] = default.xreplace(self.substitution)
            elif name in trace.axes or name in trace.widths:
                what = "finite axis" if name in trace.axes else "width"
                fail(f"the constant `{name}` of `{program.name}`, which is a {what} here", f"give it: {name}=…")
            else:
                trace.constants.setdefault(name, None)

    def expr(self, inner: Expr) -> Expr:
        """A body of the inner program over outer values."""
        inner = self._fresh_sums(inner)
        swap: dict[Expr, Expr] = {s: r for s, r in self.substitution.items() if s != r}
        for leaf in inner.atoms(ArrayEntry):
            number = self.trace.add_array(self.program.arrays[leaf.array])
            swap[leaf] = ArrayEntry(Integer(number), *(self._index(i) for i in leaf.indices))
        for entry in inner.atoms(Entry):
            swap[entry] = self.entry(entry)
        return inner.xreplace(swap)

    def _fresh_sums(self, inner: Expr) -> Expr:
        """The body with running indices of sums that no other expression of the outer trace uses."""
        # inner sums first: a sum that is renamed later holds only indices renamed before
        for total in sorted(inner.atoms(AxisSum), key=lambda s: (len(s.atoms(AxisSum)), s.bound.name)):
            inner = inner.xreplace({total.bound: bound_axis_symbol(total.axis, self.trace.counter())})
        return inner

    def _index(self, index: Expr) -> Expr:
        if isinstance(index, Lookup):
            return Lookup(Integer(self.trace.add_table(self.program.tables[index.table])), *index.indices)
        return index

    def entry(self, entry: Entry) -> Entry:
        value, inner = self.made[entry.source], self.program[entry.source]
        assert isinstance(value, Value)
        at = dict(zip(inner.axes, entry.indices, strict=True))
        # axes that only the caller's value has run along: the inner program becomes a family over them
        outer = [self._index(at[a]) if a in at else self.trace.indices([a])[0] for a in value.axes]
        neuron = entry.neuron if entry.neuron != OWN or value.width else NO_NEURON
        return Entry(Integer(value.uid), neuron, *outer)

    def _axes(self, instruction: Instruction) -> tuple[str, ...]:
        """The axes of a replayed instruction: its own and those its operands brought from outside."""
        brought = (set(self.made[p].axes) - set(self.program[p].axes) for p in instruction.operands)
        return (*instruction.axes, *set().union(*brought))

    def replay(self, position: int) -> None:
        """Record one instruction outside, unless the caller gave it."""
        if position in self.made:
            return
        s, trace = self.program[position], self.trace
        axes, width = self._axes(s), self.width[s.width] if s.width else None
        name = self.prefix + s.name
        if isinstance(s, Nonlin) and not (isinstance(s, OuterNonlin) and s.slots):
            self.made[position] = Value(trace, self.expr(s.body), width, axes, line=s.line)
            return
        value = Value(trace, sympy.S.Zero, width, axes, origin=self._origin(s, name), line=s.line)
        self.made[position] = value
        if isinstance(s, InitialMatrix):
            rows, columns = self.width[s.rows], self.width[s.columns]
            self.made[position] = MatrixValue(trace, value.uid, rows, columns, axes, trace.indices(axes))

    def _origin(self, s: Instruction, name: str) -> Origin:
        if isinstance(s, InitialMatrix):
            return Origin("matrix", (name, self.width[s.rows], self.width[s.columns], s.law.changed(self.expr)))
        if isinstance(s, InitialVector):
            return Origin("vector", (name, s.law.changed(self.expr)))
        if isinstance(s, InitialScalar):
            return Origin(
                "scalar", (name, None if s.value is None else self.expr(s.value), s.of, s.law.changed(self.expr))
            )
        if isinstance(s, Avg):
            return Origin("avg", (self.entry(s.operand), self.width[s.over]))
        if isinstance(s, MatMul):
            matrix = self.made[s.matrix]
            assert isinstance(matrix, MatrixValue)
            inner_axes = self.trace.indices(self.program[s.matrix].axes)
            change = dict(zip(inner_axes, map(self._index, s.matrix_indices), strict=True))
            indices = tuple(i.xreplace(change) for i in matrix.indices)
            return Origin("matmul", (matrix.uid, matrix.transposed != s.transposed, indices, self.entry(s.operand)))
        assert isinstance(s, OuterNonlin)
        widths = tuple(self.width[w] for w in s.slot_widths)
        return Origin("outer", (self.expr(s.body), s.slots, s.slot_names, widths))

    def inherit_names(self, given: Container[int]) -> None:
        """Names of the inner program, with the number of the call in front."""
        printed = [(s.name, p) for p, s in enumerate(self.program)]
        for names, inherited in (
            (printed, self.trace.inherited),
            (self.program.names.items(), self.trace.inherited_aliases),
        ):
            for name, position in names:
                anonymous = name.startswith("return") or name.lstrip("_").isdigit()
                if position not in given and not anonymous:
                    inherited[self.prefix + name] = self.made[position].uid


def inline(program: Program, values: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Replay `program` inside the trace in progress; initial data left out become fresh."""
    trace = active()
    if trace is None:
        fail(
            f"`{program.name}` called outside a program",
            "run it at finite width with .run(n=…, seed=…), or call it inside another @tp.program function",
        )
    if program.is_network:
        fail(f"the network `{program.name}` called inside a program", "call its layers: programs made by @tp.program")
    by_name = {name: p for name, p in program.initial_names.items() if p in program.arguments}
    if len(values) > len(program.arguments):
        fail(f"{len(values)} arguments for `{program.name}`", f"it takes {len(program.arguments)}")
    given = dict(zip(program.arguments, values, strict=False))
    constants = {}
    for name, value in keywords.items():
        if name in by_name:
            if by_name[name] in given:
                fail(f"`{name}` given twice to `{program.name}`", "give it once")
            given[by_name[name]] = value
        elif name in program.constants:
            constants[name] = value
        else:
            known = ", ".join([*(program[p].name for p in program.arguments), *program.constants])
            fail(f"`{name}` given to `{program.name}`", f"its arguments are {known or 'none'}")
    replay = Replay(program, trace)
    replay.take_arguments(given)
    replay.settle(constants)
    for position in range(len(program)):
        replay.replay(position)
    replay.inherit_names(given)
    results = tuple(replay.made[p] for p in program.returns)
    return results if program.returns_tuple else results[0]
