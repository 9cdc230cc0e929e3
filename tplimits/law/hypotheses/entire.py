"""Functions that are analytic on the whole line."""

from __future__ import annotations

import sympy
from sympy import Expr

from tplimits.program.nodes.properties import ENTIRE


def is_entire(expr: Expr, *variables: Expr, beside: tuple[type, ...] = ()) -> bool:
    """Whether it is a sum of products and whole powers of analytic heads, or of heads `beside` these, in some variables
    and numbers alone; roots, poles and logarithms only of what is positive everywhere, as in x/√(1 + x²)."""
    natural = expr.is_Pow and expr.exp.is_Integer and expr.exp.is_positive
    if isinstance(expr, (sympy.log, sympy.Pow)) and not (natural or expr.is_number):
        numbers = isinstance(expr, sympy.log) or expr.exp.is_number
        return bool(numbers and expr.args[0].is_positive) and is_entire(expr.args[0], *variables, beside=beside)
    known = expr in variables or expr.is_number or isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow, *ENTIRE, *beside))
    return known and all(is_entire(a, *variables, beside=beside) for a in expr.args)
