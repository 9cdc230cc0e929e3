"""Total programs whose removable poles of scalars are read off power series: sin(s)/s where features move.

At the start a scalar is 0 by algebra, later it leaves 0, and may come back.  A quotient whose numerator vanishes with
it is continued by an analytic function (`tplimits.numbers.near_zero`), in the network and in its gradients alike, so
that the hypothesis of Def. 2.6.5, ψ and its derivatives continuous at the limits of scalars, holds wherever it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Dummy, Expr, S

from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.pole import singular_places
from tplimits.law.hypotheses.root import ends_of_domains
from tplimits.numbers import near_zero
from tplimits.program.nodes.entries import NO_NEURON, entries
from tplimits.program.nodes.series import near
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def continued(program: Program) -> Program:
    """A total program as particles run it, with the removable poles of scalars continued."""
    return program.replace(instructions=tuple(s.changed(_continued) for s in program))


# series cost a second, and programs are run by many replicates
@remembered(1 << 10)
def _continued(body: Expr) -> Expr:
    if not any(of_scalars(argument) for _, argument in singular_places(body)):
        return body
    names = {e: Dummy(real=True) for e in entries(body)}
    found = near_zero.continued(body.xreplace(names), independent(names.values()))
    return found.xreplace({name: e for e, name in names.items()})


def of_scalars(argument: Expr) -> bool:
    """Whether an argument is one of scalars alone that may vanish, as x² + ε never does."""
    read = entries(argument)
    if not read or any(e.neuron != NO_NEURON for e in read):
        return False
    low, high = bounds(argument.xreplace({e: Dummy(real=True) for e in read}))
    return not (low > 0 or high < 0)


def places(body: Expr) -> list[tuple[str, Expr, bool]]:
    """(What stands at a singular place, the argument, whether its sign counts): poles, logarithms and roots of a body.

    Arguments inside of a continued function are 1 where its series stands for it.
    """
    series = body.atoms(near)
    found = _places(body.xreplace(dict.fromkeys(series, S.One)))
    for one in sorted(series, key=str):
        t, function, radius = one.args[:3]
        found += [(what, near(t, a, radius, S.One), root) for what, a, root in _places(function)]
    return found


def _places(body: Expr) -> list[tuple[str, Expr, bool]]:
    poles = [("what is divided by, or in a logarithm,", argument, False) for _, argument in singular_places(body)]
    return poles + [("what stands under a root", argument, True) for _, argument in ends_of_domains(body)]
