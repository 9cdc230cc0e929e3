"""Functions of several pieces where each piece is read: what is large beyond that is no part of them.

    where(c, f, g):   f is read where c > 0, there c = relu(c);   g where c ≤ 0, there c = −relu(−c)

With these put in for c a piece is what it is where it is read, and elsewhere as on the boundary: the exponential of
where(x, x, eˣ − 1) is exp(−relu(−x)), bounded on the whole line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import sympy
from sympy import Expr

from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.tails import Growth, Tail, of_sum
from tplimits.program.nodes.branches import CONDITIONS, SIDES, with_condition
from tplimits.program.nodes.digits import NOT_NUMBERS
from tplimits.program.nodes.functions import relu, step, where
from tplimits.program.nodes.properties import EXPONENTIAL
from tplimits.program.parts import found, put_in

#: so many functions are written by their branches, one inside the other
_MOST_BRANCHES = 4


class Analysis(Protocol):
    """What judges the growth of functions that are in one piece."""

    def almost_never_zero(self, expr: Expr) -> bool:
        """Whether an expression is 0 with probability 0."""

    def random(self, expr: Expr) -> bool:
        """Whether a variable stands in an expression."""

    def growth(self, expr: Expr) -> Tail:
        """The tail of an expression."""


def by_branches(
    analysis: Analysis, expr: Expr, left: int = _MOST_BRANCHES, known: frozenset[Expr] = frozenset()
) -> Tail:
    """|f| is at most the sum over the branches of what it is made of: where nothing else helps.

    What grows exponentially on the whole line may not do so where its branch is read.  `known` are conditions that
    have told branches apart before.
    """
    growth = analysis.growth(expr)
    # of what is chosen a pole that is certain may be one where something else is read
    certain = growth.kind is Growth.INFINITE and not found(expr, where)
    if certain or growth.kind in (Growth.BOUNDED, Growth.POLYNOMIAL) or not left:
        return growth
    # one function at a time, the branches of the others come in the recursion: 3^_MOST_BRANCHES ways at most; from the
    # inside out, since |u|/u for u = relu(x) is ±1 on both sides of |u|, and 0/0 on a side of u
    piecewise = (f for f in found(expr, *SIDES) if analysis.random(f) and condition_of(f) not in known)
    # what is infinite is first looked for where it is chosen
    last = lambda f: growth.kind is Growth.INFINITE and not isinstance(f, where)  # noqa: E731 - a key
    for node in sorted(piecewise, key=lambda f: (last(f), len(found(f, *SIDES)), str(f)))[:1]:
        sides: tuple[Expr, ...] = SIDES[type(node)](*node.args)
        # sign f is 0 for a share of neurons where f is, as relu(h) is
        if isinstance(node, sympy.sign) and not analysis.almost_never_zero(node.args[0]):
            sides = (*sides, sympy.S.Zero)
        told = known | {condition_of(node)}
        mirrored = _mirrored(node, expr) if analysis.almost_never_zero(node.args[0]) else {}
        everywhere = [put_in(expr, {node: side, **mirrored.get(k, {})}, {}) for k, side in enumerate(sides)]
        tried = [(everywhere, known)]
        # of a modulus beside a pole the sides are no nearer to it or further off than on the whole line, unlike those
        # of a jump elsewhere: step(x − 1)/x is read from 1 on
        if growth.kind is Growth.EXPONENTIAL or isinstance(node, where) or _is_elsewhere(condition_of(node), expr):
            tried.append((pieces(everywhere, node, analysis.random), told))
        for ways, past in tried:
            whole = of_sum([by_branches(analysis, w, left - 1, past) for w in ways if not found(w, *NOT_NUMBERS)])
            # a branch that divides by 0 is never taken there or is a pole; either way the bound by all branches is none
            if whole.kind.value < growth.kind.value and not any(found(way, *NOT_NUMBERS) for way in ways):
                return whole
    return growth


def may_lie_far_out(function: Expr, left: int = _MOST_BRANCHES, known: frozenset[Expr] = frozenset()) -> bool:
    """Whether exponentials grow without a bound where they are read: a mean may rest on what draws do not reach.

    >>> x = sympy.Symbol("x", real=True)
    >>> [may_lie_far_out(f) for f in (sympy.exp(x), sympy.exp(-(x**2)), where(x, x, sympy.exp(x)))]
    [True, False, False]
    >>> may_lie_far_out(step(x) * sympy.exp(x)), may_lie_far_out(step(x) * (1 - step(x)) * sympy.exp(x))
    (True, False)
    """
    if all(bounds(e.args[0])[1] != sympy.oo for e in found(function, *EXPONENTIAL)):
        return False
    bent = [f for f in found(function, *SIDES) if condition_of(f) not in known] if left else []
    for node in sorted(bent, key=lambda f: (len(found(f, *SIDES)), str(f)))[:1]:
        sides = [put_in(function, {node: side}, {}) for side in SIDES[type(node)](*node.args)]
        ways = pieces(sides, node, lambda term: not term.is_number)
        return any(may_lie_far_out(way, left - 1, known | {condition_of(node)}) for way in ways)
    return True


def _is_elsewhere(condition: Expr, expr: Expr) -> bool:
    """Whether a function changes its side at a place that is no pole of it."""
    poles = [p for p in found(expr, sympy.Pow) if p.exp.is_negative]
    borders = {p: with_condition(p, condition, sympy.S.Zero) for p in poles}
    return any(border != p and not found(border, *NOT_NUMBERS) for p, border in borders.items())


def _mirrored(node: Expr, expr: Expr) -> dict[int, dict[Expr, Expr]]:
    """On the sides of step(c), relu(c), … what the same function of −c is, which is on the other one; c is not 0.

    >>> x = sympy.Symbol("x", real=True)
    >>> _mirrored(step(x), 1 / (step(x) + step(-x)))
    {0: {step(-x): 0}, 1: {step(-x): 1}}
    """
    other = node.func(-node.args[0]) if len(node.args) == 1 else node
    # −sign(x) and |x| are no other functions
    if other == node or type(other) is not type(node) or not expr.has(other):
        return {}
    first, second = SIDES[type(node)](*other.args)
    return {0: {other: second}, 1: {other: first}}


def halves(expr: Expr, almost_never_zero: Callable[[Expr], bool]) -> list[Expr]:
    """An expression where c > 0 and where c < 0, for every c of which both step(c) and step(−c) stand in it.

    What is beside step(c) and beside step(−c) are no two terms of one sum.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> halves(step(x) / y + step(-x) / y, lambda c: True), halves(step(x) / y, lambda c: True)
    ([1/y, 1/y], [step(x)/y])
    """
    for node in sorted(found(expr, step), key=str):
        if (other := _mirrored(node, expr)) and almost_never_zero(node.args[0]):
            ways = (put_in(expr, {node: side, **other[k]}, {}) for k, side in enumerate(SIDES[step](*node.args)))
            return [half for way in ways for half in halves(way, almost_never_zero)]
    return [expr]


def pieces(sides: Sequence[Expr], node: Expr, varies: Callable[[Expr], bool]) -> list[Expr]:
    """An expression on the first side of a node and on the second, as it is where it is read; on its boundary as given.

    >>> from tplimits.program.nodes import functions
    >>> x = sympy.Symbol("x", real=True)
    >>> pieces([x**2, sympy.exp(x)], functions.where(x, x**2, sympy.exp(x)), lambda e: True)
    [relu(x)**2, exp(-relu(-x))]
    """
    condition = CONDITIONS[type(node)](*node.args)
    first, second, *boundary = sides
    above, below = (side * relu(side * condition) for side in (1, -1))
    read = [with_condition(first, condition, above, varies), with_condition(second, condition, below, varies)]
    return [*read, *boundary]


def condition_of(node: Expr) -> Expr:
    """What tells the sides of a node apart, whichever of them is called the first."""
    condition: Expr = CONDITIONS[type(node)](*node.args)
    return -condition if condition.could_extract_minus_sign() else condition
