"""Whether the moments of one layer are series in 1/n, or in n^(−1/2).

Averages over neurons bring in whole powers of 1/n only: E of their products is a sum over pairings of weights, and
every free neuron counts n.  Odd powers of n^(−1/2) come from roots of widths that stand in the instructions, such as
slopes 1 + c/√n.  Where the layer stays as it is when √n → −√n in all of them (√n tanh(x/√n) does, √k/√n too), the
odd powers drop out.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import sympy
from sympy import Expr

from tplimits.check.estimate import Series
from tplimits.program.entries import constant_symbol
from tplimits.program.nodes import OuterNonlin, ScalarNonlin
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
    bodies = [s.body for s in program if isinstance(s, (OuterNonlin, ScalarNonlin))]
    return WHOLE if all(_even(body.xreplace(known), program) for body in bodies) else HALVES


def _even(body: Expr, program: Program) -> bool:
    """Whether a body is the same with the other sign of all roots of widths."""
    widths = program.known.width_symbols
    roots = [p for p in body.atoms(sympy.Pow) if p.base in widths and not p.exp.is_integer]
    if any(not (2 * p.exp).is_integer for p in roots):
        return False
    flipped = body.xreplace({p: -p for p in roots})
    return flipped == body or bool(sympy.expand(flipped - body) == 0)
