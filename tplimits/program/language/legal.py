"""What an expression of a program may hold: indices, symbols, functions, numbers."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    DataIndex,
    Entry,
    GaussMean,
    Kron,
    Lookup,
)
from tplimits.program.nodes.functions import HEADS
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, Instruction, MatMul
from tplimits.program.nodes.normalise import NUMBERS, refuse_unreal
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.nodes.stated import IndexTable

_ARITY = dict(HEADS.values())
#: what stands for a number: entries of arrays and of earlier instructions, comparisons of indices
_LEAVES = (Entry, ArrayEntry, Kron)


def _same_size(program: Program, one: str, other: str) -> bool:
    if program.root_axis(one) == program.root_axis(other):
        return True
    size = program.size(one)
    return size is not None and size == program.size(other)


def index_legal(program: Program, index: Expr, free: Mapping[Expr, str], axis: str) -> bool:
    """Whether an index expression stays within an axis; `free` maps running indices to their axes."""
    size = program.size(axis)
    if isinstance(index, sympy.Integer):
        return index >= 0 and (size is None or bool(index < size))
    if isinstance(index, Lookup):
        if not 0 <= index.table < len(program.tables):
            return False
        table = program.tables[index.table]
        within = size is None or table.largest < size
        # a −1 of the inner table would read the last entry of the outer one
        nested = any(isinstance(i, (Lookup, DataIndex)) for i in index.indices)
        return within and not nested and _read_legal(program, index, free, table)
    if isinstance(index, DataIndex):
        data = _data(program, index)
        return (
            data is not None
            and data.of is not None
            and _same_size(program, data.of, axis)
            and (_plain_indices_legal(program, index, free, data.axes))
        )
    return index in free and _same_size(program, free[index], axis)


def _data(program: Program, index: DataIndex) -> InitialScalar | None:
    """The discrete input that an index reads."""
    s = program[index.source] if index.source in program.inputs else None
    return s if isinstance(s, InitialScalar) else None


def _plain_indices_legal(program: Program, index: DataIndex, free: Mapping[Expr, str], axes: tuple[str, ...]) -> bool:
    """Whether data are read at running indices and numbers."""
    plain = all(isinstance(i, (Symbol, sympy.Integer)) for i in index.indices) and len(index.indices) == len(axes)
    return plain and all(index_legal(program, i, free, a) for i, a in zip(index.indices, axes, strict=True))


def _kron_legal(program: Program, kron: Kron, free: Mapping[Expr, str]) -> bool:
    """Whether a comparison is that of a running index with data of the same axis."""
    # Kron orders its arguments by itself: either may be the data
    data, running = sorted(kron.indices, key=lambda i: isinstance(i, Symbol))
    if not isinstance(data, DataIndex) or running not in free:
        return False
    return index_legal(program, data, free, free[running])


def _read_legal(program: Program, read: ArrayEntry | Lookup, free: Mapping[Expr, str], table: IndexTable) -> bool:
    return len(read.indices) == len(table.axes) and all(
        index_legal(program, i, free, a) for i, a in zip(read.indices, table.axes, strict=True)
    )


def _entry_legal(
    program: Program, position: int, entry: Entry, free: Mapping[Expr, str], neurons: Mapping[Expr, str]
) -> bool:
    if not 0 <= entry.source < position:
        return False
    source = program[entry.source]
    if isinstance(source, InitialMatrix) or len(entry.indices) != len(source.axes):
        return False
    if isinstance(source, InitialScalar) and source.of is not None:
        return False  # it is read as an index alone
    scalar = source.width is None
    at_neuron = entry.neuron == NO_NEURON if scalar else neurons.get(entry.neuron) == source.width
    return at_neuron and all(index_legal(program, i, free, a) for i, a in zip(entry.indices, source.axes, strict=True))


def beyond(program: Program, position: int, instruction: Instruction) -> str | None:
    """Where an instruction reads beyond the end of an axis, for messages; None where it does not."""
    held: dict[type, Any] = {Entry: program.instructions[:position], ArrayEntry: program.arrays, Lookup: program.tables}
    parts = (getattr(instruction, name, None) for name in ("body", "operand"))
    reads = [(leaf, int(leaf.args[0])) for part in parts if part is not None for leaf in part.atoms(*held)]
    pairs = [
        pair
        for leaf, number in reads
        if 0 <= number < len(held[type(leaf)])
        for pair in zip(leaf.indices, held[type(leaf)][number].axes, strict=False)
    ]
    if isinstance(instruction, MatMul) and 0 <= instruction.matrix < position:
        pairs += zip(instruction.matrix_indices, program[instruction.matrix].axes, strict=False)
    for index, axis in pairs:
        size, last = program.size(axis), _largest(program, index)
        if size is not None and last is not None and last >= size:
            return f"reads index {last} of the axis `{axis}`, which has {size} entries"
    return None


def _largest(program: Program, index: Expr) -> int | None:
    """The largest value of an index that is a number or read from a table."""
    if isinstance(index, Lookup) and 0 <= index.table < len(program.tables):
        return int(program.tables[index.table].largest)
    return int(index) if isinstance(index, sympy.Integer) else None


def vector_legal(program: Program, position: int, operand: Entry, free: Mapping[Expr, str], width: str) -> bool:
    """Whether an operand is an entry of an earlier vector on this width."""
    return operand.neuron == OWN and _entry_legal(program, position, operand, free, {OWN: width})


def leaves_legal(
    program: Program, position: int, body: Expr, free: Mapping[Expr, str], neurons: Mapping[Expr, str]
) -> bool:
    """Whether a body reads earlier instructions and arrays at existing indices; `neurons` gives widths."""
    if isinstance(body, Entry):
        return _entry_legal(program, position, body, free, neurons)
    if isinstance(body, ArrayEntry):
        known = 0 <= body.array < len(program.arrays)
        return known and _read_legal(program, body, free, program.arrays[body.array])
    if isinstance(body, Kron):
        return _kron_legal(program, body, free)
    if isinstance(body, AxisSum):
        new = body.bound not in free and body.bound.name not in program.known.axes
        free = {**free, body.bound: body.axis}
        return new and body.axis in program.known.axes and leaves_legal(program, position, body.summand, free, neurons)
    if isinstance(body, GaussMean):
        return not body.has(*_LEAVES, AxisSum)
    return all(leaves_legal(program, position, a, free, neurons) for a in body.args)


def symbols_known(expr: Expr, known: Set[Symbol], bound: tuple[Symbol, ...] = ()) -> bool:
    """Whether an expression holds no symbols but these, besides indices and the variables of its means."""
    if isinstance(expr, GaussMean):
        inner, variable = expr.args
        return variable not in known and variable not in bound and symbols_known(inner, known, (*bound, variable))
    if isinstance(expr, AxisSum):
        return symbols_known(expr.summand, known, bound)
    if isinstance(expr, _LEAVES):
        return True
    if isinstance(expr, Symbol):
        return expr in known or expr in bound
    return all(symbols_known(a, known, bound) for a in expr.args)


def heads_known(expr: Expr) -> bool:
    """Whether an expression is made of the heads of the language and exact numbers."""
    if isinstance(expr, _LEAVES):
        return True
    if isinstance(expr, (AxisSum, GaussMean)):
        return heads_known(expr.args[0])
    if not expr.args:
        return expr.is_Rational or expr.is_Symbol or expr in NUMBERS.values()
    arity = _ARITY.get(type(expr), 0)
    return arity in (None, len(expr.args)) and all(map(heads_known, expr.args))


@remembered(1 << 12)
def real(expr: Expr) -> bool:
    """Whether all constants of an expression are finite real numbers."""
    try:
        refuse_unreal(expr)
    except ValueError:
        return False
    return _numbers_real(expr)


def _numbers_real(expr: Expr) -> bool:
    if expr.is_number:
        return expr.is_extended_real is not False
    return all(map(_numbers_real, expr.args))


def number_legal(program: Program, expr: Expr | None) -> bool:
    """Whether an expression is a finite real number once constants, widths and sizes are known."""
    return (
        expr is None
        or isinstance(expr, sympy.Rational)
        or (
            isinstance(expr, Expr)
            and not expr.has(*_LEAVES, AxisSum)
            and symbols_known(expr, program.known.numbers)
            and heads_known(expr)
            and real(expr)
        )
    )
