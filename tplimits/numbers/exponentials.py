"""Quotients of exponentials: functions of differences of exponents, which turn where two exponents meet.

e^(200x)/(e^(200x) + e^(200y)) = 1/(1 + e^(200(y − x)))
"""

from __future__ import annotations

import itertools

import sympy
from sympy import Expr, S

#: exponentials of one sum that are looked at pair by pair
_MEETING = 8


def of_differences(expr: Expr) -> Expr:
    """With quotients e^a/(e^a + e^b)^p as functions of differences of exponents, (e^(a − a/p) + e^(b − a/p))^(−p).

    Their forms are fewer by one, and nothing overflows.
    """
    if not expr.has(sympy.exp):
        return expr
    written = {}
    for product in expr.atoms(sympy.Mul):
        weights = [f for f in product.args if isinstance(f, sympy.exp)]
        totals = [
            f for f in product.args if f.is_Pow and f.exp.is_Integer and f.exp < 0 and _is_of_exponentials(f.base)
        ]
        if len(weights) == len(totals) == 1:
            (weight,), (total,) = weights, totals
            moved = sympy.Add(*(_moved(term, weight.args[0] / total.exp) for term in total.base.args))
            written[product] = sympy.Mul(moved**total.exp, *(f for f in product.args if f not in (weight, total)))
    return expr.xreplace(written)


def _is_of_exponentials(total: Expr) -> bool:
    return isinstance(total, sympy.Add) and all(_exponent(term) is not None for term in total.args)


def _moved(term: Expr, by: Expr) -> Expr:
    """A multiple of an exponential, or a number, times e^by."""
    if term.is_number:
        return term * sympy.exp(sympy.expand(by))
    rest = [f for f in sympy.Mul.make_args(term) if not isinstance(f, sympy.exp)]
    return sympy.Mul(*rest, sympy.exp(sympy.expand((_exponent(term) or S.Zero) + by)))


def where_exponentials_meet(body: Expr) -> set[Expr]:
    """Differences of the exponents in sums: e^(200x)/(e^(200x) + e^(200y)) turns where x = y, and not where x = 0."""
    found: set[Expr] = set()
    for node in body.atoms(sympy.Add):
        exponents = [e for term in node.args if (e := _exponent(term)) is not None]
        if 1 < len(exponents) <= _MEETING:
            found |= {a - b for a, b in itertools.combinations(exponents, 2)}
    return {a for a in found if a.free_symbols}


def _exponent(term: Expr) -> Expr | None:
    """a of a multiple of e^a, 0 of a number; None of others."""
    if term.is_number:
        return S.Zero
    inside = [f.args[0] for f in sympy.Mul.make_args(term) if isinstance(f, sympy.exp)]
    return inside[0] if len(inside) == 1 else None
