"""Poles: a denominator or a logarithm keeps away from zero in the limit.

    1/θ_n → 1/θ and log θ_n → log θ   only for θ ≠ 0

(the hypothesis of `jump`: ψ continuous at the limits of its arguments).  It is asked of every negative power and
every logarithm of the body, also of one that stands beside a factor with limit 0: in avg(u)·(1/s) with s → 0 two
fluctuations are divided by each other.  A denominator that vanishes at single points of a random variable is a
question of moments (`moments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.law.hypotheses.zero import Place, Zero, kept_from_zero
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Doubt, Reader

#: what may have a pole
HEADS: tuple[type, ...] = (sympy.log, sympy.tan, sympy.Pow)


def poles(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where the limit lands on a pole of a body; the doubts where that cannot be told."""
    return kept_from_zero(reader, "pole", [_place(reader, node, a) for node, a in singular_places(body)], where)


def _place(reader: Reader, node: Expr, argument: Expr) -> Place:
    def refusal(seen: Zero) -> str:
        return (
            f"`{reader.shown(node)}` is not finite at the limit of its arguments: `{reader.shown(argument)}` tends to "
            f"{seen} (hypothesis: ψ continuous at the limits of its scalars). Keep the denominator or the logarithm "
            "away from zero."
        )

    return Place(argument, argument, refusal)


def singular_places(body: Expr) -> list[tuple[Expr, Expr]]:
    """What is not finite where an argument is zero: (part of a body, argument)."""
    places = []
    for node in found(body, *HEADS):
        if isinstance(node, sympy.log):
            places.append((node, node.args[0]))
        elif isinstance(node, sympy.tan):
            # tan is sin/cos: its pole is where the cosine vanishes
            places.append((node, sympy.cos(node.args[0])))
        # also exponents in symbols, −p; a power of a number is a constant that was judged when it was made
        elif node.exp.could_extract_minus_sign() and not node.base.is_number:
            places.append((node, node.base))
    return sorted(places, key=str) if len(places) > 1 else places
