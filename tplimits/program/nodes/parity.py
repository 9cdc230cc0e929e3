"""What changes its sign when others do: every value of a program as odd, even or neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import AxisSum, Entry
from tplimits.program.nodes.kinds import Avg, InitialVector, MatMul, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: −1 for what changes its sign, 1 for what stays, None for what does neither
Sign = int | None


def signs(
    program: Program, vectors: int, image: Callable[[MatMul, Sign], Sign], sides: Mapping[int, tuple[Expr, Expr]]
) -> list[Sign]:
    """The sign of every value; `vectors` is that of initial vectors, `image` gives that of a product with a matrix.

    `sides` holds bodies that are not the same on the other side: what they are here, and there.

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
        elif isinstance(s, (OuterNonlin, ScalarNonlin)):
            found.append(_of_body(*sides.get(position, (s.body, s.body)), found))
        else:
            found.append(vectors if isinstance(s, InitialVector) else 1)
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
