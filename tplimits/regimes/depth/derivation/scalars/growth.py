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
from tplimits.program.nodes.entries import ArrayEntry, GaussMean, entries, free_axes, reads_vectors, with_names
from tplimits.regimes.depth.algebra.means import U
from tplimits.regimes.depth.algebra.named import multiplied_out
from tplimits.regimes.depth.algebra.products import EPS
from tplimits.regimes.depth.derivation.scalars.continuity import in_words, one_term

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.activations import Basis
    from tplimits.regimes.depth.derivation.lowering import Lowering

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


def names(expr: Expr) -> dict[Expr, str]:
    """What messages call the averages in an expression."""
    return {e: f"S{k + 1}" if k else "S" for k, e in enumerate(entries(expr))}


def insist_on_a_second_moment(lowering: Lowering, function: Expr, reason: NoLimitError) -> None:
    """Refuse a function of Gaussian scalars, or entries of dense layers, without a second moment."""
    found = tail_of(lowering, function)
    if not found.established:
        known = "has no" if found.kind is Growth.INFINITE else "is not seen to have a"
        words = {e: in_words(e) for e in entries(function) if e.source == lowering.program.state}
        told = with_names(function.xreplace(words), names(function.xreplace(words)).__getitem__, indexed=False)
        # the reader calls what stands in a moment by the copy of the input it belongs to
        why, larger = found.reason.replace("⁽1⁾", ""), str(reason).removeprefix(f"{lowering.where}: ")
        if any(map(reads_vectors, entries(function))):
            what = "S an entry of a dense layer,"
        else:
            what = "S being √n times an average, is random of order 1 in every layer, and as a random weight it"
        raise NoLimitError(f"{lowering.where}: `{told}`, {what} {known} second moment: {why}{larger and '; '}{larger}")


def tail_of(lowering: Lowering, function: Expr) -> Tail:
    """How a function of scalars grows, V given and positive where it is divided by."""
    plain = one_term(function, free_axes(function))
    state = [e for e in entries(plain) if e.source == lowering.program.state]
    plain = plain.xreplace(dict.fromkeys(state, S.One))
    drawn = {e: Symbol(name, real=True) for e, name in names(plain).items()}
    return growth(plain.xreplace({**drawn, **dict.fromkeys(plain.atoms(ArrayEntry), S.One)}), [*drawn.values()])
