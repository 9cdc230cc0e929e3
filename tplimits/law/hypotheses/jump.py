"""Jumps: scalars and vectors enter a function by their limits, which needs it continuous there.

    ψ(x_n; θ_n) → ψ(|x⟩; θ)   only where ψ is continuous at (|x⟩, θ) with probability one

(Yang & Littwin 2023, Def. 2.6.5 with Thm 2.6.10; the continuous mapping theorem).  An argument of a jump that
vanishes in the limit has either sign at finite width, however large: the value keeps fluctuating.

    θ_n step(θ_n) → 0   for θ_n → 0:   what vanishes whatever the jump is, between its two sides, does not jump

where the jump is bounded, is divided by nowhere, and no power of n multiplies it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.displaced import shifts
from tplimits.law.hypotheses.zero import Kind, Place, Zero, has_flat, kept_from_zero, seen_in_numbers, zero
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.entries import N, reads_vectors
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.functions import where as alternative
from tplimits.program.nodes.scale import at_infinity, is_infinite, without_factor
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Doubt, Reader

#: what has a jump
HEADS: tuple[type, ...] = JUMPS


def jumps(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where the limit lands on a jump of a body; the doubts where that cannot be told."""
    places = [_place(reader, node) for node in sorted(found(body, *HEADS), key=str)]
    try:
        return kept_from_zero(reader, "jump", places, where)
    except NoLimitError:
        left = _without_continuous(reader, body)
        if left == body:
            raise
    return jumps(reader, left, where)


def shifted(reader: Reader, finite: Expr, where: str) -> list[Doubt]:
    """NoLimitError where 1/n decides on a side at neurons that have the limit 0: step(relu(x) + 1/n) is 1 for all."""
    arguments = [node.args[0] for node in found(finite, *HEADS)]
    arguments += [a for node, a in singular_places(finite) if node.is_Pow]
    # scalars that are as small as 1/√n keep it beside them
    moved = (a for a in dict.fromkeys(arguments) if reads_vectors(a) and shifts(a))
    return kept_from_zero(reader, "jump", [_moved_place(reader, a) for a in moved], where, _moved)


def _moved(reader: Reader, argument: Expr, still: bool) -> Zero:
    tends = reader.limit(at_infinity(argument))
    return seen_in_numbers(reader, argument, still) if has_flat(tends) else Zero(Kind.NEVER)


def _moved_place(reader: Reader, argument: Expr) -> Place:
    told = (
        f"`{reader.shown(argument)}` tends to 0 for a share of neurons, where powers of n decide on its sign, or on "
        "what is divided by it (hypothesis of Def. 2.6.5: ψ continuous at the limits of its arguments). Leave them "
        "out, or keep the argument away from zero."
    )
    return Place(argument, argument, lambda seen: told)


def _without_continuous(reader: Reader, body: Expr) -> Expr:
    """The body without the jumps that its limit does not depend on."""
    if body.has(N):
        return body
    written = body
    while alternatives := {node: node.definition() for node in found(written, alternative)}:
        written = written.xreplace(alternatives)
    # those that are met at their jump, on either side
    met = (node for node in found(written, *HEADS) if zero(reader, node.args[0]).kind is Kind.ZERO)
    sides = {node: sympy.Dummy(real=True) for node in met}
    moved = written.xreplace(sides)  # of a jump inside of another the outer one
    exposed = [p.args[0] for p in found(moved, sympy.Pow, sympy.log) if not (p.is_Pow and p.exp.is_positive)]
    limit = reader.limit(moved)
    if is_infinite(limit):
        return body
    lost = {side for side in sides.values() if not (limit.has(side) or any(a.has(side) for a in exposed))}
    gone = {node: sympy.S.Zero for node, side in sides.items() if side in lost and moved.has(side)}
    return written.xreplace(gone) if gone else body


def _place(reader: Reader, node: Expr) -> Place:
    argument, head = node.args[0], type(node).__name__
    bare = without_factor(argument)
    if bare != argument and zero(reader, bare).kind is not Kind.ZERO:
        argument = bare  # powers of n are no zeros, and have no sign

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
