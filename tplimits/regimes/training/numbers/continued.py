"""Total programs whose removable poles of scalars are read off power series: sin(s)/s where features move.

At the start a scalar is 0 by algebra, later it leaves 0, and may come back.  A quotient whose numerator vanishes with
it is continued by an analytic function (`tplimits.numbers.near_zero`; beside vectors and other scalars by the Taylor
coefficients of `tplimits.law.rules.removable`), in the network and in its gradients alike, so that the hypothesis of
Def. 2.6.5, ψ and its derivatives continuous at the limits of scalars, holds wherever it is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sympy import Dummy, Expr, Float, Mul, S, log

from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.rules import removable
from tplimits.numbers import near_zero
from tplimits.program.nodes import functions
from tplimits.program.nodes.domains import ends_of_domains, singular_places
from tplimits.program.nodes.entries import NO_NEURON, entries
from tplimits.program.nodes.series import near
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the order of series whose coefficients are functions, and where they end at most
_ORDER, _RADIUS = 6, Float(0.5)


def continued(program: Program) -> Program:
    """A total program as particles run it, with the removable poles of scalars continued."""
    return program.changed(_continued)


# series cost a second, and programs are run by many replicates
@remembered(1 << 10)
def _continued(body: Expr) -> Expr:
    if not any(of_scalars(argument) for _, argument in singular_places(body)):
        return body
    names = {e: Dummy(real=True) for e in entries(body)}
    found = near_zero.continued(body.xreplace(names), independent(names.values()))
    return _beside_others(found.xreplace({name: e for e, name in names.items()}))


def _beside_others(body: Expr) -> Expr:
    """Quotients of a scalar and of others, tanh(h s)/s or (sin s − sin t)/(s − t), by Taylor series in the one."""
    # what another scalar divides as well may lose both poles beside other terms: those that lose all come first
    for whole in (True, False):
        for argument in _left(body):
            body = removable.replaced(body, argument, partial(_series, argument, whole))
    return body


def _left(body: Expr) -> list[Expr]:
    """The scalars at whose zeros a body has a pole, but for its series."""
    bare, series = _bare(body)
    return [a for _, argument in singular_places(bare) if of_scalars(a := argument.xreplace(series))]


def _series(argument: Expr, whole: bool, part: Expr, quotient: Expr) -> Expr | None:
    """A quotient as a series where an argument vanishes, None where its pole stays; `whole`: without other poles."""
    # what is a series already is the function that it stands for
    while series := part.atoms(near):
        part = part.xreplace({one: one.definition() for one in series})
    plain = removable.over_one(part)
    for scalar in sorted(entries(argument), key=str):
        for place in removable.zeros(argument, scalar):
            found = removable.coefficients(plain, scalar, place, _ORDER)
            terms = [] if found is None else [Mul(c, *found[1]) for c in found[0]]
            if terms and not (whole and any(map(_left, terms))):
                return near(scalar - place, quotient, _RADIUS, *terms)
    return None


def of_scalars(argument: Expr) -> bool:
    """Whether an argument is one of scalars alone that may vanish, as x² + ε never does."""
    read = entries(argument)
    if not read or any(e.neuron != NO_NEURON for e in read):
        return False
    low, high = bounds(argument.xreplace({e: Dummy(real=True) for e in read}))
    return not (low > 0 or high < 0)


def places(body: Expr) -> list[tuple[str, Expr, bool]]:
    """(What stands at a singular place, the argument, whether its sign counts): poles, logarithms and roots of a body.

    Inside of a continued function they are what they are where its series ends: a pole within is none.
    """
    bare, series = _bare(body)
    found = [(what, argument.xreplace(series), root) for what, argument, root in _places(bare)]
    for t, function, radius, *coefficients in (one.args for one in _outermost(body)):
        found += [(what, _beyond(t, a, radius, root), root) for what, a, root in places(function)]
        # elsewhere they are not looked at, but a pole of theirs is one at 0
        found += [place for c in coefficients for place in places(c)]
    return found


def _beyond(t: Expr, argument: Expr, radius: Expr, root: bool) -> Expr:
    """An argument that is no nearer to 0 where |t| is small, nor of either sign unless it stands under a root."""
    if root:
        return near(t, argument, radius, S.One)
    end = abs(argument.xreplace({t: radius}))
    least = end if end.is_positive else S.One
    return near(t, functions.minimum(abs(argument), least), radius, least)


def _bare(body: Expr) -> tuple[Expr, dict[Expr, Expr]]:
    """A body with names for its series, which have no poles of their own, and the functions that they stand for."""
    names = {one: Dummy(real=True) for one in _outermost(body)}
    return body.xreplace(names), {name: one.definition() for one, name in names.items()}


def _outermost(body: Expr) -> list[near]:
    """The series in a body that stand inside of no other."""
    found = body.atoms(near)
    inside = {one for outer in found for part in outer.args for one in part.atoms(near)}
    return sorted(found - inside, key=str)


def _places(body: Expr) -> list[tuple[str, Expr, bool]]:
    told = "what is divided by, or in a logarithm,"
    poles = [(told, argument, isinstance(part, log)) for part, argument in singular_places(body)]
    return poles + [("what stands under a root", argument, True) for _, argument in ends_of_domains(body)]
