"""Parts of expressions that hypotheses ask something of, and factors that they do not concern."""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.properties import EXPONENTIAL
from tplimits.program.parts import found, holds

#: heads that a hypothesis asks something of
_HEADS = (
    *(*JUMPS, GaussMean, *EXPONENTIAL, sympy.log, sympy.tan),
    *(sympy.asin, sympy.acos, sympy.atanh, sympy.Derivative),
)


def is_special(expr: Expr, *leaves: type) -> bool:
    """Whether there is a jump, a pole, a root or an exponential in an expression, of its leaves."""
    return any(
        isinstance(node, _HEADS) or (isinstance(node, sympy.Pow) and not (node.exp.is_Integer and node.exp.is_positive))
        for node in found(expr, sympy.Pow, *_HEADS)
        if holds(node, *leaves)
    )


def spectators(total: Expr) -> Callable[[Expr], frozenset[Expr]]:
    """Of a term of a sum its factors that stand in no function and no power of any term."""
    factors = {f for term in sympy.Add.make_args(total) for f in sympy.Mul.make_args(term)}
    free = {f for f in factors if f.is_Symbol}.difference(*(f.free_symbols for f in factors if not f.is_Symbol))
    return lambda term: frozenset(free.intersection(sympy.Mul.make_args(term)))
