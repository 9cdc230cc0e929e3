"""Powers of n in the body of a kernel derivation: the term that has no limit, as it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.program.nodes.entries import N
from tplimits.regimes.kernels.derivation.leaves import Given, TableEntry

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion


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
