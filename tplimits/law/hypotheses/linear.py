"""Linear forms in Gaussian variables: their coefficients, and which of them are independent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.law.hypotheses.reader import answered_once
from tplimits.law.hypotheses.signs import variables_in
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tplimits.law.hypotheses.reader import Randomness

#: a Gram determinant above this is certainly not zero
REGULAR = 1e-9


@answered_once
def linear(expr: Expr, gaussians: Randomness) -> dict[Symbol, Expr] | None:
    """The coefficients of an affine form in the variables, all of them numbers; None where it is not one."""
    variables = variables_in(expr, gaussians)
    if not variables or set(variables) != gaussians.of(expr):
        return None
    return _coefficients(expr, tuple(variables))


@remembered(1 << 12)
def _coefficients(expr: Expr, variables: tuple[Symbol, ...]) -> dict[Symbol, Expr] | None:
    # a function of a variable is no polynomial, and its derivatives may be long
    if not _is_algebraic(expr, frozenset(variables)):
        return None
    found = {v: sympy.diff(expr, v) for v in variables}
    return found if all(c.is_number for c in found.values()) else None


def _is_algebraic(expr: Expr, variables: frozenset[Symbol]) -> bool:
    """Whether variables stand in sums, products and powers alone."""
    if expr.is_Symbol or not expr.free_symbols & variables:
        return True
    return (expr.is_Add or expr.is_Mul or expr.is_Pow) and all(_is_algebraic(a, variables) for a in expr.args)


def independent(forms: list[tuple[Expr, Expr]], gaussians: Randomness) -> list[tuple[Expr, Expr]]:
    """Forms that are certainly linearly independent as random variables, those with small exponents first."""
    kept: list[tuple[Expr, Expr]] = []
    # small exponents bring large 1/a: of dependent forms the one that gives the larger w is kept
    for pair in sorted(forms, key=lambda pair: (pair[1], str(pair[0]))):
        rows = [linear(f, gaussians) or {} for f, _ in (*kept, pair)]
        if len(rows) == 1 or is_regular(sympy.Matrix([[covariance_of(a, b, gaussians) for b in rows] for a in rows])):
            kept.append(pair)
    return kept


def is_regular(gram: sympy.Matrix) -> bool:
    """Whether a covariance is seen to have an inverse; on the scale of its variances, where these are numbers."""
    # relative to the product of the variances: forms on a small scale are as independent as others
    det = gram.det()
    if det.is_number:
        return bool(det.evalf() > REGULAR * sympy.Mul(*gram.diagonal()).evalf())
    return bool(det.is_positive)


def covariance_of(a: Mapping[Symbol, Expr], b: Mapping[Symbol, Expr], gaussians: Randomness) -> Expr:
    """That of two forms, by the coefficients of their variables."""
    return sympy.Add(*(c * d * gaussians.covariance(x, y) for x, c in a.items() for y, d in b.items()))
