"""How heavy the tails are that C rests on: from some order on, moments are those of entries that few networks have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.tails import Growth
from tplimits.program.nodes.entries import entries
from tplimits.program.nodes.kinds import Avg

if TYPE_CHECKING:
    from tplimits.law.state import Derivation

#: moments of normal entries above this order make the series useful at large widths only
HIGH = 8


def order_of_moments(state: Derivation) -> int:
    """The largest order of a moment of normal entries in C: twice the degree of what is averaged."""
    operands = {
        e.source for s in state.program if isinstance(s, Avg) and s.operand is not None for e in entries(s.operand)
    }
    tails = [tail(ket.expr, state.gaussians) for key, ket in state.kets.items() if key[0] in operands]
    degrees = [float(t.degree) for t in tails if t.kind is Growth.POLYNOMIAL and t.degree.is_number]
    return round(2 * max(degrees, default=0.0))
