"""Roots: what stands under a root, or in an arcsine, stays where the function is real.

    √θ_n → √θ   needs θ > 0, or θ_n ≥ 0 at every width

A scalar that tends to the end of the domain with either sign leaves it at finite width with positive probability,
however large the width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.law.hypotheses.zero import Place, Zero, kept_from_zero
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Doubt, Reader

#: what may be real on a part of the line only
HEADS: tuple[type, ...] = (sympy.Pow, sympy.asin, sympy.acos, sympy.atanh)


def roots(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where the limit lands on the end of a domain; the doubts where that cannot be told."""
    ends = ends_of_domains(body)
    places = (_place(reader, node, a) for node, a in ends if reader.moves(a) and reader.bounds(a)[0] < 0)
    return kept_from_zero(reader, "root", places, where)


def _place(reader: Reader, node: Expr, argument: Expr) -> Place:
    what = f"the root in `{reader.shown(node)}`"
    if not node.is_Pow:
        what = f"the root at the end of the domain of `{type(node).__name__}`"

    def refusal(seen: Zero) -> str:
        return (
            f"what stands under {what} tends to {seen} and is negative at finite width with positive probability "
            "(hypothesis: ψ is real and continuous near the limits of its scalars). Take the root of a square or of a "
            "mean of squares, or multiply by tp.sqrt(tp.n) and look at the fluctuation."
        )

    return Place(argument, argument, refusal)


def ends_of_domains(body: Expr) -> list[tuple[Expr, Expr]]:
    """What is real where an argument is not negative: (part of a body, argument)."""
    ends = []
    for node in found(body, *HEADS):
        if not node.is_Pow:
            ends.append((node, 1 - node.args[0] ** 2))
        elif node.exp.is_Rational and not node.exp.is_Integer:
            ends.append((node, node.base))
    return sorted(ends, key=str) if len(ends) > 1 else ends
