"""The executable specification of the instructions: what makes a program legal.

Each row of `SPEC` is (instruction kind, predicate, sentence), each row of `WHOLE` is (predicate,
sentence) on the program as a whole; a program is legal when every predicate holds.  Traced programs
satisfy them by construction; a program read from a file has to prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr

from tplimits.errors import ProgramError
from tplimits.program.language.legal import (
    beyond,
    heads_known,
    index_legal,
    leaves_legal,
    number_legal,
    real,
    symbols_known,
    vector_legal,
)
from tplimits.program.language.names import is_notation
from tplimits.program.nodes.entries import OWN, axis_symbol, slot_symbol
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.nodes.laws import GIVEN, GRID, NORMAL, ORTHOGONAL, SHAPES
from tplimits.program.nodes.scale import irrational_power

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.nodes.stated import IndexTable

Predicate = Callable[["Program", int, Any], bool]


def _free_indices(instruction: Instruction) -> dict[Expr, str]:
    return {axis_symbol(a): a for a in instruction.axes}


def _widths_known(program: Program, position: int, s: Instruction) -> bool:
    if isinstance(s, InitialMatrix):
        return s.rows in program.known.widths and s.columns in program.known.widths
    return s.width in program.known.widths


def _matmul_fits(program: Program, position: int, s: MatMul) -> bool:
    matrix = program[s.matrix] if 0 <= s.matrix < position else None
    if not isinstance(matrix, InitialMatrix) or s.operand is None:
        return False
    into, out_of = (matrix.columns, matrix.rows) if not s.transposed else (matrix.rows, matrix.columns)
    free = _free_indices(s)
    indices = len(s.matrix_indices) == len(matrix.axes) and all(
        index_legal(program, i, free, a) for i, a in zip(s.matrix_indices, matrix.axes, strict=True)
    )
    return indices and s.over == out_of and vector_legal(program, position, s.operand, free, into)


def _avg_fits(program: Program, position: int, s: Avg) -> bool:
    return s.operand is not None and vector_legal(program, position, s.operand, _free_indices(s), s.over)


def _slots_canonical(program: Program, position: int, s: OuterNonlin) -> bool:
    named = not s.slot_names or len(s.slot_names) == len(s.slots)
    widths = len(s.slot_widths) == len(s.slots) and program.known.widths.issuperset(s.slot_widths)
    return named and widths and s.slots == tuple(slot_symbol(i + 1) for i in range(len(s.slots)))


def _body_fits(program: Program, position: int, s: Nonlin) -> bool:
    neurons: dict[Expr, str] = {}
    if isinstance(s, OuterNonlin):
        neurons = {OWN: s.over, **dict(zip(s.slots, s.slot_widths, strict=True))}
    return leaves_legal(program, position, s.body, _free_indices(s), neurons)


def _law_legal(program: Program, position: int, s: InitialMatrix | InitialVector | InitialScalar) -> bool:
    law = s.law
    given = (law.mean, law.std) if law.cut is None else (law.mean, law.std, law.cut)
    if not all(v is not None and number_legal(program, v) for v in given) or law.std.is_negative:
        return False
    cut = law.cut is None or not (law.cut.is_negative or law.cut.is_zero)
    if law.shape == ORTHOGONAL and not isinstance(s, InitialMatrix):
        return False
    return law.shape in SHAPES and cut and (law.shape == "truncated") == (law.cut is not None)


def _unit_variance(program: Program, position: int, s: InitialMatrix) -> bool:
    square = s.rows == s.columns or s.law.shape != ORTHOGONAL
    return s.law.mean == 0 and s.law.std == 1 and s.law.shape != GIVEN and square


def _one_grid(program: Program, position: int, s: InitialVector) -> bool:
    if s.law.shape != GRID:
        return True
    before = (e for e in program.instructions[:position] if isinstance(e, InitialVector) and e.over == s.over)
    return not s.axes and not any(e.law.shape == GRID for e in before)


_BODY: tuple[tuple[Predicate, str], ...] = (
    (lambda program, position, s: real(s.body), "its constants are finite real numbers"),
    (
        lambda program, position, s: heads_known(s.body),
        "its functions are those of tplimits.program.nodes.functions.HEADS",
    ),
    (_body_fits, "its body reads entries of earlier instructions at existing indices"),
    (
        lambda program, position, s: symbols_known(s.body, program.known.numbers),
        "its symbols are constants, widths or sizes of the program",
    ),
    (
        lambda program, position, s: irrational_power(s.body, program.known.width_symbols) is None,
        "widths stand to rational powers",
    ),
)

SPEC: tuple[tuple[type[Instruction], Predicate, str], ...] = (
    (Instruction, lambda program, position, s: len(set(s.axes)) == len(s.axes), "its axes differ from one another"),
    (InitialMatrix, _widths_known, "its rows and columns are widths of the program"),
    (InitialVector, _widths_known, "it lives on a width of the program"),
    (InitialMatrix, _law_legal, "its law has finite numbers"),
    (
        InitialMatrix,
        _unit_variance,
        "its entries have mean 0 and variance 1/columns, and it is square if it is orthogonal",
    ),
    (InitialVector, _one_grid, "places of neurons have no finite axes, and a width has one vector of them"),
    (InitialVector, _law_legal, "its law has a finite mean and a finite, non-negative standard deviation"),
    (InitialScalar, _law_legal, "its law has a finite mean and a finite, non-negative standard deviation"),
    (InitialScalar, lambda program, position, s: number_legal(program, s.value), "its value is a finite real number"),
    (
        InitialScalar,
        lambda program, position, s: s.law == NORMAL or (s.value is None and position not in program.inputs),
        "data, and what has a value, have no law",
    ),
    (
        InitialScalar,
        lambda program, position, s: s.of is None or position in program.inputs,
        "indices are data of a network",
    ),
    (
        InitialScalar,
        lambda program, position, s: (
            not s.scheduled or (s.value is not None and not s.axes and position not in program.inputs)
        ),
        "what moves with the step is one number that starts at a value, and no data",
    ),
    (MatMul, _matmul_fits, "the matrix takes vectors on the operand's width, and all indices exist"),
    (OuterNonlin, _widths_known, "it lives on a width of the program"),
    (OuterNonlin, _slots_canonical, "its averaged indices are β1, β2, ... on widths of the program"),
    (Avg, _avg_fits, "it averages an earlier vector on the stated width"),
    *((OuterNonlin, predicate, sentence) for predicate, sentence in _BODY),
    *((ScalarNonlin, predicate, sentence) for predicate, sentence in _BODY),
)


def _names_legal(program: Program) -> bool:
    """Widths, axes and constants: identifiers, and no name twice."""
    names = (*program.widths, *program.all_axes, *program.constants)
    identifiers = all(isinstance(name, str) and name.isidentifier() for name in names)
    return "n" in program.widths and len(set(names)) == len(names) and identifiers


def _sizes_legal(program: Program) -> bool:
    return all(
        axis not in program.size_of and isinstance(size, sympy.Integer) and size > 0
        for axis, size in program.sizes.items()
    )


def _table_fits(program: Program, table: IndexTable) -> bool:
    sizes = [program.size(a) for a in table.axes]
    return len(set(table.axes)) == len(table.axes) and list(table.values.shape) == sizes


def _arrays_legal(program: Program) -> bool:
    return all(
        t.values.dtype == numpy.float64 and numpy.isfinite(t.values).all() and _table_fits(program, t)
        for t in program.arrays
    )


def _tables_legal(program: Program) -> bool:
    return all(
        t.values.dtype == numpy.int64 and bool((t.values >= -1).all()) and _table_fits(program, t)
        for t in program.tables
    )


def _labels_legal(program: Program) -> bool:
    printed = [s.name for s in program]
    return len(set(printed)) == len(printed) and all(
        isinstance(name, str) and name != "" and name.isprintable() and not is_notation(name)
        for name in (*printed, *program.names)
    )


def _positions_exist(program: Program, positions: Iterable[int]) -> bool:
    return all(isinstance(p, int) and 0 <= p < len(program) for p in positions)


def _arguments_legal(program: Program) -> bool:
    kinds = (InitialMatrix, InitialVector, InitialScalar)
    distinct = len(set(program.arguments)) == len(program.arguments)
    return (
        _positions_exist(program, program.arguments)
        and distinct
        and all(isinstance(program[p], kinds) for p in program.arguments)
    )


def _state_legal(program: Program) -> bool:
    """A block gives back what it takes: the state, an argument over n, alone and with the same axes."""
    if program.state is None:
        return not program.parts
    if program.state not in program.arguments or len(program.returns) != 1 or program.returns_tuple:
        return False
    state, result = program[program.state], program[program.returns[0]]
    if not isinstance(state, InitialVector) or state.over != "n" or state.law != NORMAL:
        return False
    return result.width == "n" and set(result.axes) == set(state.axes)


def _network_legal(program: Program) -> bool:
    if not program.inputs:
        return True
    if not set(program.inputs) <= set(program.arguments) or program.returns_tuple or program.state is not None:
        return False
    data = [program[p] for p in program.inputs]
    if not all(isinstance(s, InitialScalar) and s.value is None for s in data) or len(program.returns) > 2:
        return False
    vector, *shift = (program[r] for r in program.returns)
    return vector.width is not None and all(s.width is None for s in shift)


#: in this order: later rows rely on earlier ones
WHOLE: tuple[tuple[Callable[[Program], bool], str], ...] = (
    (lambda p: all(p.root_axis(a) not in p.size_of for a in p.size_of), "no axis shares its size with itself"),
    (_names_legal, "n is a width, and widths, axes and constants are different identifiers"),
    (_sizes_legal, "sizes are positive whole numbers of axes that do not take another's size"),
    (lambda p: all(number_legal(p, v) for v in p.constants.values()), "defaults of constants are finite real numbers"),
    (_arrays_legal, "constant arrays hold finite numbers and are as long as their axes"),
    (_tables_legal, "look-up tables hold indices or -1 and are as long as their axes"),
    (_labels_legal, "instructions have different printable names, without ⟨ | ⟩ or an index [axis=0]"),
    (lambda p: _positions_exist(p, p.names.values()), "names point at its instructions"),
    (lambda p: bool(p.returns) and _positions_exist(p, p.returns), "it returns some of its instructions"),
    (lambda p: not any(isinstance(p[r], InitialMatrix) for r in p.returns), "it returns vectors and scalars"),
    (lambda p: p.returns_tuple or len(p.returns) == 1 or p.is_network, "it returns one value, or a tuple"),
    (_arguments_legal, "its arguments are initial data, each once"),
    (_network_legal, "a network takes data, scalars without a value, and returns a vector, and maybe a scalar to add"),
    (_state_legal, "a block takes a state over n and returns the next one, a vector with the same axes"),
)


def verify(program: Program) -> None:
    """Check a program against `WHOLE` and `SPEC`; ProgramError names the instruction and the broken sentence."""
    for holds, sentence in WHOLE:
        if not holds(program):
            raise ProgramError(f"program `{program.name}` is not legal: expected that {sentence}.")
    for position, instruction in enumerate(program.instructions):
        for kind, predicate, sentence in SPEC:
            if isinstance(instruction, kind) and not predicate(program, position, instruction):
                outside = beyond(program, position, instruction)
                repair = f", but it {outside}; make the axis longer or the index smaller" if outside else ""
                raise ProgramError(
                    f"{program.where(position)} is not a legal {type(instruction).__name__}: expected that "
                    f"{sentence}{repair}."
                )
