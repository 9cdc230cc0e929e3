"""How fast functions of Gaussian scalars grow in a block: the hypothesis on moments, read for this regime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.gaussians import Gaussians
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.quotients import kept_together
from tplimits.law.hypotheses.tails import Growth, Tail
from tplimits.program.nodes.entries import GaussMean
from tplimits.regimes.depth.algebra.means import U
from tplimits.regimes.depth.algebra.named import multiplied_out
from tplimits.regimes.depth.algebra.products import EPS

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.activations import Basis

#: a standard deviation that stands for "at every V": what has moments there has them at all smaller ones
_LARGE = sympy.Integer(10) ** 6
#: noise is a covariance of products of two such functions
_FOURTH = 4


def growth(function: Expr, variables: Sequence[Symbol], deviation: Expr = S.One) -> Tail:
    """The tail of a function of standard normals times a deviation; means in it are numbers, other symbols too."""
    gaussians = Gaussians()
    box = gaussians.new_box()
    drawn = {v: deviation * gaussians.copy(v, box) for v in variables}
    numbers = dict.fromkeys(function.atoms(GaussMean), S.One)
    return tail(function.xreplace(numbers).xreplace(drawn), gaussians)


def apart(function: Expr) -> list[Expr]:
    """The terms of a function of `U` and ε, those in one that have moments only together, as coth u − 1/u."""
    return kept_together(
        multiplied_out(function), [EPS], lambda base: base.has(U), lambda term: _reaches(growth(term, [U], _LARGE))
    )


def _reaches(found: Tail) -> bool:
    return bool(found.established and found.power > _FOURTH)


def insist_on_all(parts: Iterable[tuple[Expr, Basis]]) -> None:
    """NoLimitError where a function with a name of its own, of those that an activation is a sum of, lacks moments."""
    for _, basis in parts:
        if basis.function != 1:
            insist_on_moments(basis.function, U)


def insist_on_moments(function: Expr, variable: Symbol) -> None:
    """NoLimitError for an activation without a fourth moment at every V, or that is not seen to have one.

    >>> u = Symbol("u", real=True)
    >>> insist_on_moments(sympy.tanh(u) / u, u)
    >>> try:
    ...     insist_on_moments(sympy.exp(u**2 / 9), u)
    ... except NoLimitError as error:
    ...     print(str(error)[:68])
    the activation `exp(u**2/9)` has no finite second moment at every V:
    """
    found = growth(function, [variable], _LARGE)
    if _reaches(found):
        return
    what, why = "is not seen to have a", growth(function, [variable]).reason or found.reason
    if found.established:
        what, why = "has no", f"it is in L^q only for q < {found.power}"
    elif found.kind is Growth.INFINITE:
        what = "has no"
    moment = "fourth" if found.established else "second"
    raise NoLimitError(
        f"the activation `{function}` {what} finite {moment} moment at every V: {_plain(why)} (hypothesis: ψ "
        "pseudo-Lipschitz, or with the moments that drift and noise are made of). Bound the function, or keep it away "
        "from its pole."
    )


def _plain(reason: str) -> str:
    """A reason in the variable of the activation."""
    return reason.replace("⁽1⁾", "").replace(f"{_LARGE}*", "").replace(f"{_LARGE**2}*", "")
