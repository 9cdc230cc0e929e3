"""Roots: what stands under a root, or in an arcsine, stays where the function is real.

    √θ_n → √θ   needs θ > 0, or θ_n ≥ 0 at every width

A scalar that tends to the end of the domain with either sign leaves it at finite width with positive probability,
however large the width.
"""

from __future__ import annotations

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.reader import Doubt, Reader
from tplimits.law.hypotheses.zero import Kind, zero
from tplimits.program.parts import found


def roots(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where the limit lands on the end of a domain; the doubts where that cannot be told."""
    doubts = []
    for node, argument in ends_of_domains(body):
        if not reader.moves(argument) or reader.bounds(argument)[0] >= 0:
            continue
        seen = zero(reader, argument)
        if seen.kind is Kind.ZERO:
            what = f"the root in `{reader.shown(node)}`"
            if not node.is_Pow:
                what = f"the root at the end of the domain of `{type(node).__name__}`"
            raise NoLimitError(
                f"{where}: what stands under {what} tends to {seen} and is negative at finite width with "
                "positive probability (hypothesis: ψ is real and continuous near the limits of its scalars). Take the "
                "root of a square or of a mean of squares, or multiply by tp.sqrt(tp.n) and look at the fluctuation."
            )
        if seen.kind is Kind.OPEN:
            reason = f"whether `{reader.shown(argument)}` tends to 0 is not decided: {seen.reason}"
            doubts.append(Doubt("root", reader.shown(argument), where, reason, seen.later))
    return doubts


def ends_of_domains(body: Expr) -> list[tuple[Expr, Expr]]:
    """What is real where an argument is not negative: (part of a body, argument)."""
    powers = [p for p in found(body, sympy.Pow) if p.exp.is_Rational and not p.exp.is_Integer]
    ends = [(p, p.base) for p in powers]
    for node in found(body, sympy.asin, sympy.acos, sympy.atanh):
        ends.append((node, 1 - node.args[0] ** 2))
    return sorted(ends, key=str)
