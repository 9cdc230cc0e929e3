"""Degrees of homogeneity: f(c x) = c^d f(x) for every c > 0, told by how a function is written.

Values at points do not show it: h + 2 + tanh(h − 30) − tanh(h + 30) is h to all digits where h is of order 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import sympy
from sympy import Expr, S
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from tplimits.program.nodes import properties
from tplimits.program.nodes.entries import AxisSum, GaussMean, entries
from tplimits.program.nodes.functions import leaky_relu, maximum, minimum, stop_gradient, where
from tplimits.program.nodes.kinds import Initial, Instruction, made_of

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: d, −∞ for what is 0, which has every degree, and None where none is seen
Degree: TypeAlias = Expr | None
ZERO = S.NegativeInfinity


def degrees(program: Program, initial: Callable[[Instruction], Degree]) -> list[Degree]:
    """The degree of every value, in what `initial` tells of initial ones.

    >>> import tplimits as tp
    >>> @tp.program
    ... def three(x: tp.Vector, W: tp.Matrix):
    ...     return tp.avg(tp.relu(W @ x) * x), tp.sign(x), tp.tanh(x)
    >>> found = degrees(three, lambda s: sympy.Integer(s.name == "x"))
    >>> [found[p] for p in three.returns]
    [2, 0, None]
    """
    found: list[Degree] = []
    for s in program:
        if isinstance(s, Initial):
            found.append(initial(s))
        else:
            body = made_of(s)
            found.append(degree(body, {e: found[e.source] for e in entries(body)}))
    return found


def degree(body: Expr, known: Mapping[Expr, Degree]) -> Degree:
    """The degree of a function of variables that have degrees; all else in it is a number.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> degree(abs(x) / sympy.sqrt(1 + sympy.sign(x)), {x: S.One}), degree(x + y, {x: S.One, y: S.Zero})
    (1, None)
    """
    if body in known:
        return known[body]
    if body == 0:
        return ZERO
    if not body.has(*known):
        return S.Zero
    if isinstance(body, (AxisSum, GaussMean)):
        return degree(body.args[0], known)
    if isinstance(body, Relational):
        # true or false as the side of 0 that a difference with a degree is on
        return None if degree(body.lhs - body.rhs, known) is None else S.Zero
    parts = [degree(a, known) for a in body.args]
    found = [p for p in parts if p is not None]
    return _combined(body, found) if len(found) == len(parts) else None


def common(parts: Iterable[Expr]) -> Degree:
    """The degree of what is one of some parts, or their sum; 0 is of every degree."""
    kinds = {p for p in parts if p != ZERO}
    return None if len(kinds) > 1 else next(iter(kinds), ZERO)


def _combined(body: Expr, parts: list[Expr]) -> Degree:
    """The degree of a node whose arguments have degrees."""
    if isinstance(body, (sympy.Add, sympy.Max, sympy.Min, maximum, minimum)):
        return common(parts)
    if isinstance(body, sympy.Mul):
        return ZERO if ZERO in parts else sympy.Add(*parts)
    if isinstance(body, sympy.Pow) and body.exp.is_number:
        return None if parts[0] == ZERO else parts[0] * body.exp
    if isinstance(body, where):
        return common(parts[1:])
    if isinstance(body, sympy.Piecewise):
        return common(parts)
    if isinstance(body, sympy.functions.elementary.piecewise.ExprCondPair):
        return parts[0]
    if isinstance(body, stop_gradient):
        return parts[0]
    power = properties.DEGREES.get(type(body))
    if power is not None and not (isinstance(body, leaky_relu) and parts[1] not in (S.Zero, ZERO)):
        return ZERO if parts[0] == ZERO else parts[0] * power
    # any function of what does not change does not change
    return S.Zero if isinstance(body, Boolean) or all(p in (S.Zero, ZERO) for p in parts) else None
