"""Polynomials in correlated Gaussian variables (Isserlis)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy
from sympy import Expr, S, Symbol


def gaussian_polynomial(
    integrand: Expr, variables: Sequence[Symbol], covariance: Mapping[tuple[Symbol, Symbol], Expr]
) -> Expr | None:
    """E of a polynomial in centred Gaussian variables, or None for what is none.

    >>> a, b = sympy.symbols("a b", real=True)
    >>> law = {(a, a): 2, (a, b): sympy.Symbol("c"), (b, a): sympy.Symbol("c"), (b, b): 1}
    >>> gaussian_polynomial(a**2 * b**2, [a, b], law)
    2*c**2 + 2
    """
    try:
        polynomial = sympy.Poly(integrand, *variables)
    except sympy.PolynomialError:
        return None
    if any(g.free_symbols & set(variables) for c in polynomial.coeffs() for g in c.atoms(sympy.Function)):
        return None
    if polynomial.total_degree() > 12:
        return None
    return sympy.Add(
        *(
            c * _monomial(tuple(v for v, p in zip(variables, powers, strict=True) for _ in range(p)), covariance, {})
            for powers, c in polynomial.terms()
        )
    )


def _monomial(word: tuple[Symbol, ...], covariance: Mapping[tuple[Symbol, Symbol], Expr], known: dict) -> Expr:
    if not word:
        return S.One
    if len(word) % 2:
        return S.Zero
    if word not in known:
        first, rest = word[0], word[1:]
        known[word] = sympy.Add(
            *(
                covariance[first, other] * _monomial(rest[:i] + rest[i + 1 :], covariance, known)
                for i, other in enumerate(rest)
            )
        )
    return known[word]
