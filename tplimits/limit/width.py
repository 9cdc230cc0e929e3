"""The width limit of a program: walk the instructions, apply the rule of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sympy import S

from tplimits.errors import NoLimitError
from tplimits.limit.closed_forms.table import CLOSED_FORMS, ClosedForm
from tplimits.limit.closed_forms.tilting import InfiniteMoment
from tplimits.limit.effort import Effort
from tplimits.limit.expectation import Expectations
from tplimits.limit.gaussians import Gaussians
from tplimits.limit.kets import Ket, Key
from tplimits.limit.rules.average import average
from tplimits.limit.rules.initial import initial_scalar, initial_vector
from tplimits.limit.rules.matmul import matmul
from tplimits.limit.rules.outer import outer, scalar
from tplimits.limit.rules.reading import key_of
from tplimits.limit.state import State
from tplimits.limit.unroll import indices
from tplimits.program.entries import Entry
from tplimits.program.nodes import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.program import Program


def derive_width(
    program: Program,
    table: Sequence[ClosedForm] = CLOSED_FORMS,
    with_dots: bool = True,
    effort: Effort | None = None,
    reading: Callable[[int], None] = lambda position: None,
) -> State:
    """Kets of all vectors and limits of all scalars (Yang & Littwin, Def. 2.6.5 and Thm 2.6.10).

    `table=()` leaves every mean beyond polynomials unevaluated; `with_dots=False` drops the dot-kets,
    which gives the (wrong) limit one would get by treating W and Wᵀ as independent.  `reading` is told each
    instruction before it is read, and TooMuch raised when `effort` is spent.
    """
    state = State(program, Expectations(Gaussians(), table, effort=effort), with_dots)
    for position, instruction in enumerate(program.instructions):
        reading(position)
        for index in indices(program, instruction.axes):
            try:
                _apply(state, position, instruction, index)
            except InfiniteMoment as infinite:
                raise NoLimitError(
                    f"{program.where(position)}: {infinite}. Bound the function, or narrow its argument."
                ) from None
    return state


def _operand(state: State, entry: Entry, instruction: Instruction, index: tuple[int, ...]) -> Key | None:
    """The vector a product or an average reads; None where a table says there is no entry."""
    place = state.unroller.at(entry, instruction.axes, index)
    return key_of(place) if isinstance(place, Entry) else None


def _ket(state: State, key: Key | None) -> Ket:
    return Ket("0", S.Zero) if key is None else state.kets[key]


def _apply(state: State, position: int, instruction: Instruction, index: tuple[int, ...]) -> None:
    key = (position, index)
    if isinstance(instruction, InitialMatrix):
        return
    if isinstance(instruction, InitialVector):
        initial_vector(state, key, instruction)
    elif isinstance(instruction, InitialScalar):
        initial_scalar(state, key, instruction)
    elif isinstance(instruction, MatMul):
        assert instruction.operand is not None
        chosen = tuple(state.unroller.index_at(i, instruction.axes, index) for i in instruction.matrix_indices)
        view = (instruction.matrix, chosen, instruction.transposed)
        matmul(
            state, key, view, _ket(state, _operand(state, instruction.operand, instruction, index)), instruction.over
        )
    elif isinstance(instruction, Avg):
        assert instruction.operand is not None
        operand = _operand(state, instruction.operand, instruction, index)
        average(state, key, _ket(state, operand), operand)
    elif isinstance(instruction, ScalarNonlin):
        scalar(state, key, instruction)
    else:
        assert isinstance(instruction, OuterNonlin)
        outer(state, key, instruction)
