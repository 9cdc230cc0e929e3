"""Powers of n in the body of a kernel derivation: what leads, and the term that has no limit, as it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.fluctuation import diverging, growing, is_average
from tplimits.program.nodes.entries import N, entries, with_axes_named
from tplimits.program.nodes.scale import at_infinity, led, multiplied_out, powers_of_n
from tplimits.regimes.kernels.derivation.leaves import Given, TableEntry

#: what a mean has at order n^(−1/2) where n stands inside a function
_LOWER = sympy.Symbol("lower order", real=True)

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion


def diverging_term(state: Recursion, position: int, body: Expr, error: str) -> NoLimitError:
    """The error for a body with a positive power of n: an average whose mean does not vanish, or none at all."""
    where, term = state.program.where(position), _shortest(state, body) or shortened(error)
    read = {g.source for g in body.atoms(Given)} | {x.node for x in state.leaves(body)}
    for average in sorted(number for number in read if state.nodes[number].is_fluctuation):
        mean = at_infinity(state.scalars[average])
        mean = mean.xreplace(dict.fromkeys((*mean.atoms(Given), *state.leaves(mean)), S.Zero))
        if mean != 0:
            shown = written(state, mean)
            return diverging(where, state.nodes[average].name, shown, term, bool(mean.is_number))
    return growing(where, term)


def _shortest(state: Recursion, body: Expr) -> str:
    """The shortest product with a positive power of n, in the names of vectors and brackets."""
    grown = [p for p in body.atoms(sympy.Mul) if any(f.base == N and f.exp.is_positive for f in p.atoms(sympy.Pow))]
    if not grown:
        return ""
    term = min(grown, key=lambda p: (sympy.count_ops(p), sympy.default_sort_key(p)))
    leading = term.xreplace(dict.fromkeys((*term.atoms(Given), *state.leaves(term)), S.Zero)) or term
    return shortened(written(state, leading))


def written(state: Recursion, expr: Expr) -> str:
    """An expression of leaves in the names of vectors and brackets."""
    names = {e: state.bracket(e) for e in expr.atoms(TableEntry)}
    names |= {x: state.nodes[x.node].name for x in state.leaves(expr)}
    names |= {g: f"√n·{state.nodes[g.source].name}" for g in expr.atoms(Given)}
    return with_axes_named(sympy.sstr(expr.xreplace({e: sympy.Symbol(name) for e, name in names.items()})))


def shortened(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) < 200 else text[:200] + "…"


def vanishing(operand: Expr) -> tuple[Expr, Expr]:
    """The power of n that leads an operand which vanishes, and the operand over it; 1 and the operand else."""
    power, rest = (led(operand) if operand.has(N) else None) or (S.Zero, operand)
    return (N**power, rest) if power < 0 else (S.One, operand)


def reads_powers(state: Recursion, expr: Expr) -> bool:
    """Whether a vector that holds powers of n stands in an expression of a program."""
    return any(e.source in state.with_powers for e in entries(expr))


def keeps_powers(state: Recursion, position: int, judged: Expr, limit: Expr) -> bool:
    """Whether a vector holds powers of n, or nothing but a fluctuation, and no average reads it, which asks the class.

    Where more than a fluctuation is left, those are told by what the scalars are made of.
    """
    if judged.has(N) or reads_powers(state, judged):
        return True
    read = networkx.descendants(state.program.graph, position) if limit == 0 else ()
    return limit == 0 and not any(is_average(state.program, p) for p in read)


def lower_orders(operand: Expr, mean: Callable[[Expr], Expr]) -> Expr:
    """The mean of what vanishes with n in an operand: a later √n may bring it out."""
    if operand == 0:
        return S.Zero
    found = multiplied_out(operand)
    return mean(found) if powers_of_n(found) else _LOWER / sympy.sqrt(N)


def refuse_lower_orders(limit: Expr, where: str) -> None:
    """NoLimitError where a limit rests on a part of a mean that is not derived."""
    if limit.has(_LOWER):
        raise NoLimitError(
            f"{where}: a power of n brings out what a mean has at order n^(−1/2), which is not derived where n stands "
            "inside a function. Take the power of n out of the function, or write its expansion."
        )
