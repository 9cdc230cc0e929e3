"""Where the randomness of a kernel derivation comes from, for the hypotheses on fluctuations and readouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx

from tplimits.law.hypotheses.fluctuation import OTHER_WIDTH, SHARED, initial_only, is_safe, origins_of, refused

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
        shared = origins_of(state.program, node) & origins_of(state.program, other)
        return OTHER_WIDTH if shared else ""
    if initial_only(state.program, node) and initial_only(state.program, other):
        return ""
    return "" if is_safe(state.program, [node, other], state.infinite) else SHARED
