"""Kinks whose place is decided by scalars alone: they bring n^(−1/2) into means of programs that write no root of n.

A scalar fluctuates about its limit like n^(−1/2), so that E|s| = c/√n where s tends to 0.  A kink of a function of a
vector, relu(h − m), is passed by Gaussian entries and averaged over; one of relu(s), or of relu(s h), is not.

Training in the operator regime moves entries by n^(−1/2), and across a kink of any function that leaves a bias: the
entries that are moved through it are a share n^(−1/2), each by n^(−1/2), on the side that has the larger gradient and
against the sign of their readout, which makes n^(−1/2) Σ_α v_α … of order n^(−1/2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Expr, S

from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.functions import kinks
from tplimits.program.nodes.kinds import Avg, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def has_corner(program: Program, position: int, beside_vectors: bool = False) -> bool:
    """Whether an instruction has a kink that scalars alone may reach; `beside_vectors` where vectors are its factors.

    >>> import tplimits as tp
    >>> @tp.program
    ... def gate(x: tp.Vector, y: tp.Vector):
    ...     z = tp.relu(tp.avg(x * y)) * x
    ...     return tp.avg(z * tp.relu(x - tp.avg(x)))
    >>> [has_corner(gate, p) for p, s in enumerate(gate) if isinstance(s, (OuterNonlin, ScalarNonlin))]
    [False, True, False]
    >>> @tp.program
    ... def scaled(x: tp.Vector, y: tp.Vector):
    ...     return tp.avg(tp.abs(tp.avg(x * y) * x))
    >>> any(has_corner(gate, p, beside_vectors=True) for p in range(len(gate)))
    False
    >>> any(has_corner(scaled, p, beside_vectors=True) for p in range(len(scaled)))
    True
    """
    instruction = program[position]
    if not isinstance(instruction, (OuterNonlin, ScalarNonlin)):
        return False
    found = [argument for argument in kinks(instruction.body) if _of_scalars(program, argument)]
    return any(program[e.source].width is not None or not beside_vectors for a in found for e in a.atoms(Entry))


def has_kink(program: Program) -> bool:
    """Whether any function of the program has a kink or a jump."""
    return any(kinks(s.body) for s in program if isinstance(s, (OuterNonlin, ScalarNonlin)))


def _of_scalars(program: Program, argument: Expr) -> bool:
    """Whether nothing but scalars that fluctuate is left of an argument where all of them vanish."""
    scalars = {e for e in argument.atoms(Entry) if _fluctuates(program, e.source)}
    # relu(s h) vanishes with s, relu(h − s) keeps its Gaussian h, which smooths the kink out
    return bool(scalars) and not argument.xreplace(dict.fromkeys(scalars, S.Zero)).has(Entry)


def _fluctuates(program: Program, position: int) -> bool:
    """Whether a value is a scalar made of averages; data and given scalars are what they are at every width."""
    s = program[position]
    if isinstance(s, ScalarNonlin):
        return any(_fluctuates(program, operand) for operand in s.operands)
    return isinstance(s, Avg)
