"""What functions with a kink or a jump are on their sides."""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, S

from tplimits.program.nodes import functions

#: what functions with branches are on these, wherever their arguments stand
BRANCHES: dict[type, Callable[..., tuple[Expr, Expr]]] = {
    sympy.Abs: lambda x: (x, -x),
    functions.relu: lambda x: (x, S.Zero),
    functions.leaky_relu: lambda x, slope: (x, slope * x),
    functions.maximum: lambda x, y: (x, y),
    functions.minimum: lambda x, y: (x, y),
    functions.where: lambda _, x, y: (x, y),
}
#: the same, and what jumps are on theirs
SIDES: dict[type, Callable[..., tuple[Expr, Expr]]] = {
    **BRANCHES,
    functions.step: lambda x: (S.One, S.Zero),
    sympy.sign: lambda x: (S.One, S.NegativeOne),
}
#: nodes of a difference that is divided
_SHORT = 100


def without_jump(node: functions.where) -> Expr | None:
    """where(c, x, y) as y + relu(c) (x − y)/c where c divides x − y, so that it does not jump at 0; or None.

    >>> c, y = sympy.symbols("c y", real=True)
    >>> without_jump(functions.where(c, c**2 + y, y)), without_jump(functions.where(c, y, 2 * y))
    (c*relu(c) + y, None)
    """
    c, x, y = node.args
    if sympy.count_ops(x - y) > _SHORT:
        return None
    left, divisor = sympy.fraction(sympy.cancel(sympy.expand(x - y) / c))
    return y + functions.relu(c) * left / divisor if divisor.is_number else None
