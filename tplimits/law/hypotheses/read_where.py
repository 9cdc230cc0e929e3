"""Functions of several pieces where each piece is read: what is large beyond that is no part of them.

    where(c, f, g):   f is read where c > 0, there c = relu(c);   g where c ≤ 0, there c = −relu(−c)

With these put in for c a piece is what it is where it is read, and elsewhere as on the boundary: the exponential of
where(x, x, eˣ − 1) is exp(−relu(−x)), bounded on the whole line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
from sympy import Expr

from tplimits.program.nodes.branches import CONDITIONS
from tplimits.program.nodes.functions import relu
from tplimits.program.parts import found, put_in


def pieces(sides: Sequence[Expr], node: Expr, varies: Callable[[Expr], bool]) -> list[Expr]:
    """An expression on the first side of a node and on the second, as it is where it is read; on its boundary as given.

    >>> from tplimits.program.nodes import functions
    >>> x = sympy.Symbol("x", real=True)
    >>> pieces([x**2, sympy.exp(x)], functions.where(x, x**2, sympy.exp(x)), lambda e: True)
    [relu(x)**2, exp(-relu(-x))]
    """
    condition = CONDITIONS[type(node)](*node.args)
    first, second, *boundary = sides
    read = [_where_positive(first, condition, varies), _where_positive(second, -condition, varies)]
    return [*read, *boundary]


def condition_of(node: Expr) -> Expr:
    """What tells the sides of a node apart, whichever of them is called the first."""
    condition: Expr = CONDITIONS[type(node)](*node.args)
    return -condition if condition.could_extract_minus_sign() else condition


def _where_positive(expr: Expr, condition: Expr, varies: Callable[[Expr], bool]) -> Expr:
    """The expression with relu(c) for a condition c, by one term of it, a variable where there is one."""
    terms = {term: factor for factor, term in (t.as_coeff_Mul() for t in sympy.Add.make_args(condition))}
    moving = sorted((t for t in terms if varies(t)), key=lambda t: (not t.is_Symbol, str(t)))
    for term in moving[:1]:
        rest = condition - terms[term] * term
        read = sympy.expand((relu(condition) - rest) / terms[term])
        # a symbol beside a variable may be 0: multiples of the two together are looked for
        beside = {m: {*m.args} - {*term.args} for m in found(expr, sympy.Mul) if {*term.args} <= {*m.args}}
        multiples = {m: left for m, left in beside.items() if term.is_Mul and all(f.is_Atom for f in left)}
        expr = put_in(expr, {term: read, **{m: sympy.Mul(*left, read) for m, left in multiples.items()}}, {})
    return expr
