"""The width limit of a program: walk the instructions, apply the rule of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sympy import S

from tplimits.errors import NoLimitError
from tplimits.law.closed_forms.table import CLOSED_FORMS, ClosedForm
from tplimits.law.closed_forms.tilting import InfiniteMoment
from tplimits.law.expectation import Expectations
from tplimits.law.gaussians import Gaussians
from tplimits.law.hypotheses import universality
from tplimits.law.kets import MASTER, Ket, Key, Reference, Step, key_of
from tplimits.law.rules.average import average
from tplimits.law.rules.initial import initial_scalar, initial_vector
from tplimits.law.rules.matmul import matmul
from tplimits.law.rules.outer import outer, scalar
from tplimits.law.state import Derivation
from tplimits.law.unroll import indices
from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.laws import NORMAL, ORTHOGONAL
from tplimits.program.walk import Walker

if TYPE_CHECKING:
    from tplimits.law.effort import Effort
    from tplimits.program.nodes.kinds import (
        Avg,
        InitialMatrix,
        InitialScalar,
        InitialVector,
        Instruction,
        MatMul,
        OuterNonlin,
        ScalarNonlin,
    )
    from tplimits.program.nodes.program import Program


def derive_width(
    program: Program,
    table: Sequence[ClosedForm] = CLOSED_FORMS,
    with_dots: bool = True,
    effort: Effort | None = None,
    reading: Callable[[int], None] = lambda position: None,
    data: Mapping[int, Any] | None = None,
) -> Derivation:
    """Kets of all vectors and limits of all scalars (Yang & Littwin, Def. 2.6.5 and Thm 2.6.10).

    `table=()` leaves every mean beyond polynomials unevaluated; `with_dots=False` drops the dot-kets,
    which gives the (wrong) limit one would get by treating W and Wᵀ as independent.  `reading` is told each
    instruction before it is read, and TooMuch raised when `effort` is spent; `data` are inputs that are indices.
    """
    state = Derivation(program, Expectations(Gaussians(), table, effort=effort), with_dots, data=data or {})
    rules = _Rules(state)
    for position, instruction in enumerate(program.instructions):
        reading(position)
        for index in indices(program, instruction.axes):
            try:
                rules.read(instruction, (position, index))
            except InfiniteMoment as infinite:
                raise NoLimitError(
                    f"{program.where(position)}: {infinite}. Bound the function, or narrow its argument."
                ) from None
    return state


def _operand(state: Derivation, entry: Entry, instruction: Instruction, index: tuple[int, ...]) -> Key | None:
    """The vector a product or an average reads; None where a table says there is no entry."""
    place = state.unroller.at(entry, instruction.axes, index)
    return key_of(place) if isinstance(place, Entry) else None


def _ket(state: Derivation, key: Key | None) -> Ket:
    return Ket("0", S.Zero) if key is None else state.kets[key]


UNIVERSAL = Reference(f"{MASTER}, Setup 2.6.4", "yang2023tensor")
HAAR = Reference("law of an orthogonal matrix, given some of its images; Rangan et al. 2019", "rangan2019vector")


class _Rules(Walker[None]):
    """The rule of each kind, at one index of its axes."""

    def __init__(self, state: Derivation) -> None:
        self.state = state
        self.said: set[InitialMatrix] = set()

    def initial_matrix(self, s: InitialMatrix, key: Key) -> None:
        """A matrix has no ket; its products do."""
        if s.law != NORMAL and s not in self.said:
            self.said.add(s)
            (text,) = universality.stated((s,))
            proved = HAAR if s.law.shape == ORTHOGONAL else UNIVERSAL
            self.state.steps.append(Step("initial matrix", (), lambda: text, proved))

    def initial_vector(self, s: InitialVector, key: Key) -> None:
        initial_vector(self.state, key, s)

    def initial_scalar(self, s: InitialScalar, key: Key) -> None:
        initial_scalar(self.state, key, s)

    def matmul(self, s: MatMul, key: Key) -> None:
        chosen = tuple(self.state.unroller.index_at(i, s.axes, key[1]) for i in s.matrix_indices)
        view = (s.matrix, chosen, s.transposed)
        operand = _operand(self.state, s.operand, s, key[1])
        matmul(self.state, key, view, _ket(self.state, operand), s.over)
        if operand is None or (operand in self.state.exact and self.state.kets[operand].expr == 0):
            self.state.exact.add(key)

    def average(self, s: Avg, key: Key) -> None:
        operand = _operand(self.state, s.operand, s, key[1])
        average(self.state, key, _ket(self.state, operand), operand)

    def scalar(self, s: ScalarNonlin, key: Key) -> None:
        scalar(self.state, key, s)

    def outer(self, s: OuterNonlin, key: Key) -> None:
        outer(self.state, key, s)
