"""Constants that are means over a standard normal, tp.expect: they need a first moment, E|f(g)| < ∞.

    E|f| < ∞   if and only if √|f| is square integrable,   E|f + h| ≤ E|f| + E|h|

so that one analysis of tails judges both.  A mean inside that moves with the variable is a mean over a box: by Fubini
it has a mean where its integrand has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.reader import Doubt
from tplimits.law.hypotheses.tails import Growth, InfiniteMoment, Tail, of_sum
from tplimits.law.means import BoxMean
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.parts import holds, put_in

if TYPE_CHECKING:
    from tplimits.law.gaussians import Gaussians

_HYPOTHESIS = "(hypothesis of tp.expect: an integrable function of a standard normal)"


def opened(mean: GaussMean, gaussians: Gaussians, constant: Callable[[GaussMean], Expr] = lambda inner: inner) -> Expr:
    """The integrand of a mean at a variable of its own, `constant` telling what means are that do not move with it."""
    integrand, variable = mean.args
    # judged on the copy: the variable of the integrand is bound, and unknown to the law
    own = integrand.xreplace({variable: gaussians.copy(variable, gaussians.new_box())})
    inside = {}
    for inner in dict.fromkeys(outermost(own)):
        if any(map(gaussians.is_random, inner.free_symbols)):
            box = gaussians.copy(inner.args[1], gaussians.new_box())
            moving = inner.args[0].xreplace({inner.args[1]: box})
            inside[inner] = BoxMean(_boxed(moving, gaussians, constant), box)
        else:
            inside[inner] = constant(inner)
    return put_in(own, inside, {}) if inside else own


def _boxed(expr: Expr, gaussians: Gaussians, constant: Callable[[GaussMean], Expr]) -> Expr:
    whole = sympy.Dummy("g", real=True)
    return opened(GaussMean(expr, whole), gaussians, constant)


def outermost(expr: Expr) -> Iterator[GaussMean]:
    """The means of an expression that stand in no other."""
    if isinstance(expr, GaussMean):
        yield expr
        return
    for part in expr.args if holds(expr, GaussMean) else ():
        yield from outermost(part)


def first_moment(own: Expr, gaussians: Gaussians) -> Tail:
    """The tail of an integrand as far as its mean is concerned."""
    whole = tail(own, gaussians)
    if whole.established or whole.unreal:
        return whole
    terms = [t.integrand if isinstance(t, BoxMean) else t for t in sympy.Add.make_args(own)]
    roots = [tail(sympy.sqrt(sympy.Abs(t)), gaussians) for t in terms]
    if all(root.established for root in roots):
        return of_sum(roots)
    if len(roots) == 1:
        return roots[0]
    # two infinite terms may cancel
    return replace(whole, kind=Growth.UNKNOWN)


def constant_mean(where: str, mean: GaussMean, gaussians: Gaussians) -> Doubt | None:
    """Judge tp.expect of an integrand: InfiniteMoment, a doubt, or nothing."""
    own, shown = opened(mean, gaussians), f"tp.expect of {mean.args[0]}"
    growth = first_moment(own, gaussians)
    if growth.kind is Growth.INFINITE:
        raise InfiniteMoment(f"{where}: {infinite(shown, growth)}")
    # an odd function would be printed as 0, whatever its poles
    if not growth.established and tail(own, gaussians).kind is Growth.INFINITE:
        raise NoLimitError(f"{where}: {unseen(shown)}")
    return None if growth.established else Doubt("moment", shown, where, growth.reason)


def infinite(shown: str, growth: Tail) -> str:
    """What is told of a mean that does not exist."""
    why = (
        f"{growth.reason}"
        if growth.unreal
        else f"the root of its absolute value is not square integrable, {growth.reason}"
    )
    return f"{shown} has no finite mean: {why} {_HYPOTHESIS}. Bound the function, or keep it away from its pole."


def unseen(shown: str) -> str:
    """What is told of a mean that is not seen to exist."""
    return (
        f"{shown} is not seen to have a finite mean for all large n {_HYPOTHESIS}. Bound the function, or keep it away "
        "from its pole."
    )
