"""What changes its sign when others do: functions of one variable and values of a program, odd, even or neither.

Told by algebra alone.  Values show that a function is neither; that it is one of them they do not show, as where
sigmoid(200 (x − 1)) is 0 to all digits at every point that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.entries import AxisSum, Entry
from tplimits.program.nodes.functions import BENT, Real, softplus
from tplimits.program.nodes.kinds import Avg, InitialVector, MatMul, Nonlin
from tplimits.program.nodes.pieces import by_pieces
from tplimits.program.parts import holds, longer, remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: −1 for what changes its sign, 1 for what stays, None for what does neither
Sign = int | None
#: nodes of a sum that is brought over one denominator: a longer one takes minutes
_LONG = 400


@remembered(1 << 12)
def parity(function: Expr, variable: Symbol) -> Sign:
    """1 for an even function, −1 for an odd one, also at 0; None where algebra shows neither.

    >>> from tplimits.program.nodes.functions import sigmoid
    >>> x = Symbol("x", real=True)
    >>> parity(x * sigmoid(x) * (1 - sigmoid(x)), x), parity(1 / (1 + sympy.exp(-x)), x)
    (-1, None)
    """
    turned = function.xreplace({variable: -variable})
    for sign in (1, -1):
        if turned == sign * function:
            return sign
    here, there = map(reflected, (function, turned))
    differences = {sign: there - sign * here for sign in (1, -1)}
    for simpler in (sympy.expand, _over_one_denominator):
        for sign, difference in differences.items():
            if simpler(difference) == 0:
                return sign
    return by_pieces(function, variable) if holds(function, *BENT) else None


def reflected(function: Expr) -> Expr:
    """In heads that are odd, even, or tell their value at −x by that at x."""
    written = function.replace(lambda e: isinstance(e, Real), lambda e: e.definition())
    # one of both for either sign
    return sympy.expand(
        written.replace(softplus, lambda x: softplus(-x) + x if x.could_extract_minus_sign() else softplus(x))
    )


def _over_one_denominator(difference: Expr) -> Expr:
    if longer(difference, _LONG):
        return difference
    try:
        return sympy.cancel(difference)
    except sympy.PolynomialError:  # not all of it is a rational function of something
        return difference


def signs(
    program: Program,
    vectors: int,
    image: Callable[[MatMul, Sign], Sign],
    sides: Mapping[int, tuple[Expr, Expr]],
    alone: int | None = None,
) -> list[Sign]:
    """The sign of every value; `vectors` is that of initial vectors, `image` gives that of a product with a matrix.

    The one at the position `alone`, if it is given, has it alone.  `sides` holds bodies that are not the same on the
    other side: what they are here, and there.

    >>> import tplimits as tp
    >>> @tp.program
    ... def three(x: tp.Vector):
    ...     return tp.avg(tp.tanh(x) * x), tp.avg(tp.tanh(x)), tp.avg(tp.relu(x))
    >>> found = signs(three, -1, lambda s, sign: sign, {})
    >>> [found[p] for p in three.returns]
    [1, -1, None]
    """
    found: list[Sign] = []
    for position, s in enumerate(program):
        if isinstance(s, MatMul):
            found.append(image(s, found[s.operand.source]))
        elif isinstance(s, Avg):
            found.append(found[s.operand.source])
        elif isinstance(s, Nonlin):
            found.append(_of_body(*sides.get(position, (s.body, s.body)), found))
        else:
            found.append(vectors if isinstance(s, InitialVector) and alone in (None, position) else 1)
    return found


def _of_body(body: Expr, flipped: Expr, found: list[Sign]) -> Sign:
    entries = flipped.atoms(Entry)
    if any(found[e.source] is None for e in entries):
        return None
    other = _with_signs_outside(flipped.xreplace({e: -e for e in entries if found[e.source] == -1}))
    body = _with_signs_outside(body)
    if _equal(other, body):
        return 1
    return -1 if _equal(other, -body) else None


def _with_signs_outside(body: Expr) -> Expr:
    """Σ (−x) as −Σ x."""

    def written(summand: Expr, *over: Expr) -> Expr:
        sign = -1 if summand.could_extract_minus_sign() else 1
        return sign * AxisSum(sign * summand, *over)

    return body.replace(AxisSum, written)


def _equal(first: Expr, second: Expr) -> bool:
    return first == second or bool(sympy.expand(first - second) == 0)
