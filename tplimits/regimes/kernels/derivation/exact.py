"""What is at its limit at every width: given scalars, constants, functions of these, and what is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.law.hypotheses.zero import is_nothing_by_halves
from tplimits.program.nodes.entries import N, width_symbol
from tplimits.program.nodes.kinds import Avg, InitialScalar, InitialVector, Instruction, MatMul
from tplimits.regimes.kernels.derivation.reading import BodyReader

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion


def note_exact(state: Recursion, position: int, s: Instruction) -> None:
    """Note an instruction that does not depend on the width, nor on what is drawn; its operands are known."""
    if not state.degree_of(position) and _is_exact(state, s):
        state.judged.exact.add(position)


def _is_exact(state: Recursion, s: Instruction) -> bool:
    if isinstance(s, (InitialScalar, InitialVector)):
        return isinstance(s, InitialScalar) or s.law.std == 0
    body = s.operand if isinstance(s, (Avg, MatMul)) else getattr(s, "body", None)
    if body is None or any(map(body.has, (N, *map(width_symbol, state.program.widths)))):
        return False
    if is_nothing_by_halves(body):
        return True
    moves = BodyReader(state).moves(body)
    # an image of a constant is drawn, unless that is 0
    return not moves and (not isinstance(s, MatMul) or BodyReader(state).limit(body) == 0)
