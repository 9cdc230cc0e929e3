"""Functions of two variables as sums of products of functions of one."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from sympy import Expr, S, Symbol

from tplimits.program.parts import addends

#: more terms than this are integrated as they are
_MOST_TERMS = 64


def products(function: Expr, variables: Sequence[Symbol]) -> tuple[tuple[Expr, Expr], ...] | None:
    """(f, h) with F = Σ f(g1) h(g2), None where F is no such sum; h = 1 for one variable."""
    if len(variables) == 1:
        return ((function, S.One),)
    # a product as it stands, before anything is multiplied out: one pair of functions instead of many
    together = _split(function, variables)
    if together is not None:
        return (together,)
    terms = list(addends(function))
    if len(terms) == 1 or len(terms) > _MOST_TERMS:
        return None
    collected: dict[Expr, Expr] = {}
    for term in terms:
        found = _split(term, variables)
        if found is None:
            return None
        collected[found[1]] = collected.get(found[1], S.Zero) + found[0]
    return tuple((collected[h], h) for h in sorted(collected, key=sympy.default_sort_key))


def _split(product: Expr, variables: Sequence[Symbol]) -> tuple[Expr, Expr] | None:
    sides: list[list[Expr]] = [[], []]
    for factor in sympy.Mul.make_args(product):
        mine = [i for i, v in enumerate(variables) if v in factor.free_symbols]
        # exp(x + y) = exp(x) exp(y)
        if len(mine) == 2 and isinstance(factor, sympy.exp) and factor.args[0].is_Add:
            parts = [sympy.exp(a) for a in factor.args[0].args]
            inner = _split(sympy.Mul(*parts, evaluate=False), variables)
            if inner is None:
                return None
            for side, part in zip(sides, inner, strict=True):
                side.append(part)
            continue
        if len(mine) == 2:
            return None
        sides[mine[0] if mine else 0].append(factor)
    return sympy.Mul(*sides[0]), sympy.Mul(*sides[1])
