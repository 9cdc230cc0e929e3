"""Whether the moments of one layer are series in 1/n, or in n^(−1/2).

Averages over neurons bring in whole powers of 1/n only: E of their products is a sum over pairings of weights, and
every free neuron counts n.  Odd powers of n^(−1/2) come from roots of widths that stand in the instructions, such as
slopes 1 + c/√n.  Where the layer stays as it is when √n → −√n in all of them (√n tanh(x/√n) does, √k/√n too), the
odd powers drop out.  So they do where a change of sign of one matrix undoes that of √n, since W and −W have one law:
√n avg((Q x)(K x)) is the same at (−√n, −Q).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import sympy
from sympy import Expr

from tplimits.check.corners import has_corner
from tplimits.check.estimate import Series
from tplimits.program.entries import Entry, constant_symbol
from tplimits.program.nodes import Avg, InitialMatrix, MatMul, OuterNonlin, ScalarNonlin
from tplimits.program.program import Program

WHOLE, HALVES = Series(), Series((Fraction(1, 2), Fraction(1)))


def layer_series(program: Program, given: Mapping[str, Any] | None = None) -> Series:
    """L + b/n, or L + b/√n + c/n where the sign of √n matters.

    >>> import tplimits as tp
    >>> @tp.block
    ... def shaped(x: tp.State["token"], W: tp.Matrix, *, c):
    ...     return W @ ((1 + c / tp.sqrt(tp.n)) * tp.relu(x))
    >>> str(layer_series(shaped))
    'L + b/√n + c/n'
    >>> @tp.block
    ... def smooth(x: tp.State["token"], W: tp.Matrix):
    ...     return tp.sqrt(tp.n) * tp.tanh(W @ x / tp.sqrt(tp.n))
    >>> str(layer_series(smooth))
    'L + b/n'
    """
    values = {**program.constants, **{c: v for c, v in (given or {}).items() if c in program.constants}}
    known = {constant_symbol(c): v for c, v in values.items() if isinstance(v, Expr)}
    bodies = {p: s.body.xreplace(known) for p, s in enumerate(program) if isinstance(s, (OuterNonlin, ScalarNonlin))}
    try:
        flipped = {p: _with_other_roots(body, program) for p, body in bodies.items()}
    except _OtherRoots:
        return HALVES
    matrices = [p for p, s in enumerate(program) if isinstance(s, InitialMatrix)]
    if any(has_corner(program, position, beside_vectors=True) for position in range(len(program))):
        return HALVES
    return WHOLE if any(_even(program, bodies, flipped, W) for W in (None, *matrices)) else HALVES


class _OtherRoots(Exception):
    """A root of a width that is not a square root."""


def _with_other_roots(body: Expr, program: Program) -> Expr:
    widths = program.known.width_symbols
    roots = [p for p in body.atoms(sympy.Pow) if p.base in widths and not p.exp.is_integer]
    if any(not (2 * p.exp).is_integer for p in roots):
        raise _OtherRoots
    return body.xreplace({p: -p for p in roots})


def _even(program: Program, bodies: Mapping[int, Expr], flipped: Mapping[int, Expr], matrix: int | None) -> bool:
    """Whether the program returns the same with the other sign of all roots of widths and of one matrix."""
    odd: set[int] = set()
    for position, s in enumerate(program):
        if isinstance(s, MatMul):
            assert s.operand is not None
            changes = (s.matrix == matrix) != (s.operand.source in odd)
        elif isinstance(s, Avg):
            assert s.operand is not None
            changes = s.operand.source in odd
        elif position in bodies:
            body = bodies[position]
            other = flipped[position].xreplace({e: -e for e in body.atoms(Entry) if e.source in odd})
            changes = not _equal(other, body)
            if changes and not _equal(other, -body):
                return False
        else:
            changes = False
        odd |= {position} if changes else set()
    return not odd & set(program.returns)


def _equal(first: Expr, second: Expr) -> bool:
    return first == second or bool(sympy.expand(first - second) == 0)
