"""Dirac deltas of kinks: c(z) δ(z) = c(0) δ(z), which is nothing where a function is continuous."""

from __future__ import annotations

from collections.abc import Collection

import sympy
from sympy import DiracDelta, Expr, S, Symbol

from tplimits.program.functions import step


def without_vanishing_deltas(integrand: Expr, variables: Collection[Symbol]) -> Expr:
    """The integrand without the deltas whose coefficient is zero at their place.

    Jumps in a coefficient are bounded: z step(z) δ(z) = 0.

    >>> z = Symbol("z", real=True)
    >>> without_vanishing_deltas(z * DiracDelta(z) + step(z), [z])
    step(z)
    >>> without_vanishing_deltas(sympy.exp(z) * DiracDelta(z), [z])
    exp(z)*DiracDelta(z)
    """
    if not integrand.has(DiracDelta):
        return integrand
    gathered: dict[Expr, Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(integrand)):
        deltas: list[Expr] = []
        rest: list[Expr] = []
        for factor in sympy.Mul.make_args(term):
            (deltas if factor.has(DiracDelta) else rest).append(factor)
        key = sympy.Mul(*deltas)
        gathered[key] = gathered.get(key, S.Zero) + sympy.Mul(*rest)
    kept = {key: value for key, value in gathered.items() if not _vanishes(key, value, variables)}
    return integrand if len(kept) == len(gathered) else sympy.Add(*(k * v for k, v in kept.items()))


def _vanishes(deltas: Expr, coefficient: Expr, variables: Collection[Symbol]) -> bool:
    jumps = {f: sympy.Dummy(real=True) for f in coefficient.atoms(step, sympy.sign)}
    bounded = coefficient.xreplace(jumps)
    for delta in deltas.atoms(DiracDelta):
        places = delta.args[0].free_symbols & set(variables)
        if len(places) != 1:
            continue
        (z,) = places
        if delta.args[0].xreplace({z: S.Zero}) != 0:
            continue
        if sympy.expand(bounded.xreplace({z: S.Zero})) == 0:
            return True
    return False
