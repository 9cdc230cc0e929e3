"""Gaussian vectors with a mean as centred ones, b = m + σ g, wherever a function reads b; a number where σ = 0.

The same numbers at every width.  What is known of vectors whose law rotations of the neurons leave as it is, is then
known of those with a mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Expr, S

from tplimits.program.nodes.entries import entries
from tplimits.program.nodes.kinds import InitialVector, Nonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def with_centred_vectors(program: Program) -> Program:
    """A program whose Gaussian vectors that functions alone read have mean zero, or are numbers, but for its state.

    What is multiplied by a matrix, averaged or returned as it is keeps its mean.
    """
    plain = {p for s in program if not isinstance(s, Nonlin) for p in s.operands}
    plain |= {*program.returns, *(() if program.state is None else (program.state,))}
    instructions, means, still = list(program), {}, set[int]()
    for p, s in enumerate(program):
        if isinstance(s, InitialVector) and p not in plain and (s.law.mean != 0 or s.law.std == 0):
            centred = replace(s, law=replace(s.law, mean=S.Zero))
            if centred.turns:  # normal
                instructions[p], means[p] = centred, s.law.mean
                still |= {p} if s.law.std == 0 else set()
    if not means:
        return program

    def moved(body: Expr) -> Expr:
        swap = {e: means[e.source] + (0 if e.source in still else e) for e in entries(body) if e.source in means}
        return body.xreplace(swap)

    return program.replace(instructions=tuple(s.changed(moved) if isinstance(s, Nonlin) else s for s in instructions))
