"""Where the randomness of a kernel derivation comes from, and what has none: it is at its limit at every width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx

from tplimits.law.hypotheses.fluctuation import OTHER_WIDTH, SHARED, initial_only, is_apart, is_safe, refused
from tplimits.law.hypotheses.zero import is_nothing_by_halves
from tplimits.program.nodes.entries import N, width_symbol
from tplimits.program.nodes.kinds import Avg, InitialScalar, InitialVector, Instruction, MatMul
from tplimits.regimes.kernels.derivation.reading import BodyReader

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion


def settle(state: Recursion, node: int) -> None:
    """Refuse a fluctuation whose law, alone or together with the earlier ones, is not given by brackets."""
    if node in state.fluctuations:
        return
    state.fluctuations.append(node)
    for other in state.fluctuations:
        why = _objection(state, node, other)
        if why:
            raise refused(state.program, node, state.nodes[node].name, why)


def _objection(state: Recursion, node: int, other: int) -> str:
    """Why two fluctuations (or one, given twice) are not jointly Gaussian with their brackets; "" where they are."""
    mine, theirs = state.nodes[node], state.nodes[other]
    # of different degrees: an odd power of δθ has mean zero
    if mine.degree != theirs.degree or (node != other and other in networkx.ancestors(state.program.graph, node)):
        return ""  # given the earlier one, the later is Gaussian, centred, of the law it has without it
    if mine.over != theirs.over:
        return "" if is_apart(state.program, node, other, state.infinite) else OTHER_WIDTH
    if initial_only(state.program, node) and initial_only(state.program, other):
        return ""
    return "" if is_safe(state.program, [node, other], state.infinite) else SHARED


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
