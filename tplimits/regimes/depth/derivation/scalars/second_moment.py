"""Second moments of functions of Gaussian scalars of order 1, and of entries of dense layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.tails import Growth, Tail
from tplimits.program.nodes.entries import ArrayEntry, entries, reads_vectors, with_names
from tplimits.regimes.depth.derivation.scalars.continuity import in_words, one_term
from tplimits.regimes.depth.derivation.scalars.growth import growth

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering


def names(expr: Expr) -> dict[Expr, str]:
    """What messages call the averages in an expression."""
    return {e: f"S{k + 1}" if k else "S" for k, e in enumerate(entries(expr))}


def insist_on_a_second_moment(lowering: Lowering, function: Expr, reason: NoLimitError) -> None:
    """Refuse a function of Gaussian scalars, or entries of dense layers, without a second moment."""
    found = tail(lowering, function)
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


def tail(lowering: Lowering, function: Expr) -> Tail:
    """How a function of scalars grows, V given and positive where it is divided by."""
    plain = one_term(function)
    state = [e for e in entries(plain) if e.source == lowering.program.state]
    plain = plain.xreplace(dict.fromkeys(state, S.One))
    drawn = {e: Symbol(name, real=True) for e, name in names(plain).items()}
    return growth(plain.xreplace({**drawn, **dict.fromkeys(plain.atoms(ArrayEntry), S.One)}), [*drawn.values()])
