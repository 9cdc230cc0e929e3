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
