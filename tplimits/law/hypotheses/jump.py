"""Jumps: scalars and vectors enter a function by their limits, which needs it continuous there.

    ψ(x_n; θ_n) → ψ(|x⟩; θ)   only where ψ is continuous at (|x⟩, θ) with probability one

(Yang & Littwin 2023, Def. 2.6.5 with Thm 2.6.10; the continuous mapping theorem).  An argument of a jump that
vanishes in the limit has either sign at finite width, however large: the value keeps fluctuating.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.law.hypotheses.zero import Place, Zero, kept_from_zero
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Doubt, Reader

#: what has a jump
HEADS: tuple[type, ...] = JUMPS


def jumps(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where the limit lands on a jump of a body; the doubts where that cannot be told."""
    places = [_place(reader, node) for node in sorted(found(body, *HEADS), key=str)]
    return kept_from_zero(reader, "jump", places, where)


def _place(reader: Reader, node: Expr) -> Place:
    argument, head = node.args[0], type(node).__name__

    def refusal(seen: Zero) -> str:
        limit = reader.written(argument)
        tends = "0, with either sign at finite width" if limit == "0" else f"`{limit}`"
        return (
            f"the limit lands on a jump of `{head}`; the argument of {head} is {seen}: `{reader.shown(argument)}` "
            f"tends to {tends}, where the function is not continuous (hypothesis of Def. 2.6.5: ψ continuous at the "
            "limits of its arguments), so the value keeps fluctuating. Use a continuous function, or multiply the "
            "argument by tp.sqrt(tp.n)."
        )

    return Place(node, argument, refusal, "the argument ")
