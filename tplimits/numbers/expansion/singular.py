"""Functions of vectors that an expansion to order 1/n does not reach: poles and roots, and what no power bounds.

    b and C are means of second derivatives and of squares: f polynomially bounded with its derivatives, or of scalars

A pole of a vector's function has moments at most up to some order, and its derivatives fewer; an exponential of a
vector has them all in the limit, but E exp(Avg(e^x)) is infinite at every width.  So a pole has to stay away from what
is divided by, and an exponential needs an argument that is bounded from above.
"""

from __future__ import annotations

from collections.abc import Callable

from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.pole import singular_places
from tplimits.law.hypotheses.root import ends_of_domains
from tplimits.program.nodes.entries import Entry, entries, reads_vectors
from tplimits.program.nodes.properties import EXPONENTIAL, FADING
from tplimits.program.parts import found

#: what grows faster than any power, and the sign with which an argument has to be bounded from above
_FAST = {head: (1,) if head in FADING else (1, -1) for head in EXPONENTIAL}


def refuse_singular(
    body: Expr, inside: Callable[[Entry], Expr | None], shown: Callable[[Expr], str], where: str
) -> None:
    """NoLimitError where a body has a pole, a root or an exponential that vectors reach.

    `inside` gives the body of a vector that is a function of others, and the number of a scalar; None for others.
    """
    for node in found(body, *_FAST):
        if reads_vectors(node):
            low, high = bounds(_opened(node.args[0], inside))
            # E exp(Avg eˣ) is infinite at every width, whatever the limit says
            if any((high if sign > 0 else -low) is S.Infinity for sign in _FAST[type(node)]):
                raise NoLimitError(
                    f"{where}: `{shown(node)}` grows faster than any power of its argument, a vector: moments to the "
                    "order that 1/n needs are not established (hypothesis: functions of vectors are bounded by "
                    "polynomials, with two derivatives). Bound the argument, or take an exponential of averages."
                )
    for node, argument in (*singular_places(body), *ends_of_domains(body)):
        if reads_vectors(argument):
            low, high = bounds(_opened(argument, inside))
            if not (low > 0 or high < 0):
                raise NoLimitError(
                    f"{where}: `{shown(node)}` has a pole or a root where `{shown(argument)}`, a vector, comes near 0: "
                    "moments of its derivatives are missing (hypothesis: functions of vectors are bounded by "
                    "polynomials, with two derivatives). Keep it away from zero, as x² + 1 is."
                )


def _opened(expr: Expr, inside: Callable[[Entry], Expr | None]) -> Expr:
    """With functions of vectors written out, numbers for scalars, and symbols for what is left."""
    swap: dict[Expr, Expr] = {}
    for e in entries(expr):
        body = inside(e)
        swap[e] = Symbol(f"x {e}", real=True) if body is None else _opened(body, inside)
    return expr.xreplace(swap)
