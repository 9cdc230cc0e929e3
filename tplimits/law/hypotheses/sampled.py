"""Means over draws: the error of (1/M) Σ x_α y_α is √(Var |x⟩|y⟩ / M), which needs E (|x⟩|y⟩)² to be finite.

A ket that is square integrable has a mean square, but draws know its error only with a fourth moment: E exp(0.2 g²)² is
√5, E exp(0.2 g²)⁴ is infinite, and the spread of draws shrinks as if it were not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.law.hypotheses.bounds import may_vanish_below
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.read_where import may_lie_far_out
from tplimits.law.hypotheses.signs import without_names
from tplimits.law.hypotheses.tails import Growth
from tplimits.program.nodes.entries import reads_vectors
from tplimits.program.nodes.kinds import Instruction, OuterNonlin
from tplimits.program.nodes.properties import EXPONENTIAL
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: terms of a sum that is squared term by term
_FEW = 6


def may_have_no_error(instructions: Iterable[Instruction]) -> bool:
    """Whether a function of vectors has an exponential or a pole: all others have every moment."""
    return any(
        (may_lie_far_out(node) or may_vanish_below(node)) and reads_vectors(node)
        for s in instructions
        if isinstance(s, OuterNonlin)
        for node in found(s.body, *EXPONENTIAL, sympy.Pow)
    )


def no_error(left: Expr, right: Expr, gaussians: Randomness) -> str:
    """Why a mean of a product of two kets over draws has no error; "" where that is not certain."""
    both = [without_names(ket, gaussians) for ket in (left, right)]
    product = sympy.Mul(*both)
    growth = tail(product, gaussians)
    # a sum is squared term by term: (1 + F)² has one that may be infinite
    if not growth.established and all(len(sympy.Add.make_args(ket)) <= _FEW for ket in both):
        growth = max(growth, tail(sympy.expand(product), gaussians), key=lambda t: t.kind.value)
    return growth.reason if growth.kind is Growth.INFINITE else ""


def told(kets: str, reason: str, helps: str) -> str:
    """The words for it; `kets` is "|y⟩²" or "|x⟩|y⟩", `helps` what else can be done."""
    return (
        f"moment not established: particles average {kets}, which has a mean and no variance ({reason}): the error of "
        "the mean does not exist, and the spread of particles is none. Make the function grow more slowly, keep it "
        f"away from its pole, or {helps}."
    )
