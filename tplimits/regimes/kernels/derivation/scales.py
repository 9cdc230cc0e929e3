"""Powers of n in the body of a kernel derivation: a limit through series, and the term that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.law.rules.powers import series_limit
from tplimits.program.nodes.entries import N
from tplimits.program.nodes.functions import JUMPS, leaky_relu, relu
from tplimits.regimes.kernels.derivation.leaves import Given, Of, TableEntry

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion


def in_series(body: Expr) -> Expr | None:
    """The limit of √n·tanh(S/√n) and its like; None where a kink or a jump is met, whose sides differ."""
    if body.has(*JUMPS, relu, leaky_relu):
        return None
    names: dict[Expr, Expr] = {g: sympy.Dummy(real=True) for g in body.atoms(Given)}
    found = series_limit(body.xreplace(names), Of)
    return None if found is None else found.xreplace({name: g for g, name in names.items()})


def divergent(state: Recursion, body: Expr) -> str:
    """The shortest product with a positive power of n, in the names of vectors and brackets."""
    grown = [p for p in body.atoms(sympy.Mul) if any(f.base == N and f.exp.is_positive for f in p.atoms(sympy.Pow))]
    if not grown:
        return ""
    term = min(grown, key=lambda p: (sympy.count_ops(p), sympy.default_sort_key(p)))
    leading = term.xreplace(dict.fromkeys((*term.atoms(Given), *state.leaves(term)), S.Zero)) or term
    names = {e: state.bracket(e) for e in leading.atoms(TableEntry)}
    names |= {x: state.nodes[x.node].name for x in state.leaves(leading)}
    names |= {g: f"√n·{state.nodes[g.source].name}" for g in leading.atoms(Given)}
    return shortened(sympy.sstr(leading.xreplace({e: sympy.Symbol(name) for e, name in names.items()})))


def shortened(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) < 200 else text[:200] + "…"
