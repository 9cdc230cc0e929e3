"""Whether the moments of one layer are series in 1/n, or in n^(−1/2).

Averages over neurons bring in whole powers of 1/n only: E of their products is a sum over pairings of weights, and
every free neuron counts n.  Odd powers of n^(−1/2) come from roots of widths that stand in the instructions, such as
slopes 1 + c/√n.  Where the layer stays as it is when √n → −√n in all of them (√n tanh(x/√n) does, √k/√n too), the
odd powers drop out.  So they do where a change of sign of one matrix undoes that of √n, since W and −W have one law:
√n avg((Q x)(K x)) is the same at (−√n, −Q).

The sign of a scalar that fluctuates around a kink, sgn(avg(q k)), is that of √n times an average: it changes with √n,
whose powers |avg(q k)| = avg(q k) sgn(avg(q k)) thus brings in.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Dummy, Expr

from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import NO_NEURON, Entry, constant_symbol
from tplimits.program.nodes.kinds import InitialMatrix, MatMul, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.parity import Sign, signs
from tplimits.sampling.corners import has_corner
from tplimits.sampling.estimate import Series

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

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
    bodies = {
        p: _in_signs(s.body.xreplace(known))
        for p, s in enumerate(program)
        if isinstance(s, (OuterNonlin, ScalarNonlin))
    }
    try:
        flipped = {p: _with_other_roots(body, program) for p, body in bodies.items()}
    except _OtherRoots:
        return HALVES
    matrices = [p for p, s in enumerate(program) if isinstance(s, InitialMatrix)]
    if any(has_corner(program, position, beside_vectors=True) for position in range(len(program))):
        return HALVES
    sides = {p: (body, flipped[p]) for p, body in bodies.items()}
    return WHOLE if any(_even(program, sides, W) for W in (None, *matrices)) else HALVES


class _OtherRoots(Exception):
    """A root of a width that is not a square root."""


def _with_other_roots(body: Expr, program: Program) -> Expr:
    widths = program.known.width_symbols
    roots = [p for p in body.atoms(sympy.Pow) if p.base in widths and not p.exp.is_integer]
    if any(not (2 * p.exp).is_integer for p in roots):
        raise _OtherRoots
    signs = {Dummy(): sign for sign in body.atoms(sympy.sign) if _of_scalars(sign)}
    rest = body.xreplace({sign: d for d, sign in signs.items()}).xreplace({p: -p for p in roots})
    return rest.xreplace({d: -sign for d, sign in signs.items()})


def _in_signs(body: Expr) -> Expr:
    """A body with the kinks of scalars written through their signs."""
    heads = (sympy.Abs, functions.step, functions.relu, functions.leaky_relu, functions.where)
    while bent := [h for h in body.atoms(*heads, functions.maximum, functions.minimum) if _of_scalars(h)]:
        head = min(bent, key=sympy.count_ops)  # one that holds others is another one when these are written
        written = functions.elementary(head)
        signs = {j: (1 + sympy.sign(j.args[0])) / 2 for j in written.atoms(functions.step)}
        body = body.xreplace({head: written.xreplace(signs)})
    return body


def _of_scalars(expr: Expr) -> bool:
    """Whether an expression holds scalars and no vectors."""
    entries = expr.atoms(Entry)
    return bool(entries) and all(e.neuron == NO_NEURON for e in entries)


def _even(program: Program, sides: Mapping[int, tuple[Expr, Expr]], matrix: int | None) -> bool:
    """Whether the program returns the same with the other sign of all roots of widths and of one matrix."""

    def image(s: MatMul, sign: Sign) -> Sign:
        return None if sign is None else sign * (-1 if s.matrix == matrix else 1)

    found = signs(program, 1, image, sides)
    return all(found[position] == 1 for position in program.returns)
