"""Polynomials of Gaussians, and polynomials times steps, by integration by parts (Stein).

    E[g_i F(g)] = Σ_j C_ij E[∂_j F(g)]

Applied to a polynomial this is Isserlis' theorem.  A step differentiates to a delta, and
E[δ(ℓ + c) F] = φ_s(c) E[F | ℓ = −c] with φ_s the density of N(0, s²), s² = Var ℓ: one step less.

References: Isserlis, Biometrika 12 (1918); Stein, Ann. Statist. 9 (1981), Lemma 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.closed_forms.integrand import Affine, Law, tidy
from tplimits.law.closed_forms.orthant import merged
from tplimits.program.parts import remembered

#: polynomials beyond this degree are left to quadrature
_HIGHEST_DEGREE = 12

Exponents = tuple[int, ...]
Polynomial = dict[Exponents, Expr]
OrthantProbability = Callable[[Law, tuple[Affine, ...]], Expr]


def shifted(monomial: Exponents, mean: Iterable[Expr]) -> Polynomial:
    """The monomial of g + mean as a polynomial of g."""
    result: Polynomial = {(0,) * len(monomial): S.One}
    for place, (power, m) in enumerate(zip(monomial, mean, strict=True)):
        if power == 0:
            continue
        expanded: Polynomial = {}
        for k in range(power + 1):
            factor = sympy.binomial(power, k) * m ** (power - k) if m != 0 else S(int(k == power))
            if factor == 0:
                continue
            for exponents, c in result.items():
                key = (*exponents[:place], exponents[place] + k, *exponents[place + 1 :])
                expanded[key] = expanded.get(key, S.Zero) + c * factor
        result = expanded
    return result


def by_parts(exponents: Exponents, covariance: Sequence[Sequence[Expr]]) -> Iterator[tuple[Expr, Exponents]]:
    """E g^exponents = Σ_j C_ij E ∂_j g^rest, i the first variable: (coefficient, exponents) of the terms."""
    first = next(i for i, e in enumerate(exponents) if e)
    rest = _lower(exponents, first)
    for j, power in enumerate(rest):
        c = covariance[first][j]
        if power and c != 0:
            yield power * c, _lower(rest, j)


def pairings(places: tuple[int, ...]) -> Iterable[list[tuple[int, ...]]]:
    """All ways to cut a set into pairs: E Π g is the sum over them of products of covariances (Isserlis).

    >>> list(pairings((1, 2, 3, 4)))
    [[(1, 2), (3, 4)], [(1, 3), (2, 4)], [(1, 4), (2, 3)]]
    """
    if not places:
        yield []
        return
    for i in range(1, len(places)):
        for rest in pairings((*places[1:i], *places[i + 1 :])):
            yield [(places[0], places[i]), *rest]


@remembered(1 << 12)
def counted_pairings(exponents: Exponents) -> Mapping[tuple[tuple[int, int], ...], int]:
    """E g^exponents as Σ count · Π C_ij: how many pairings have the same pairs of variables, by parts.

    >>> counted_pairings((2, 2))
    {((0, 0), (1, 1)): 1, ((0, 1), (0, 1)): 2}
    """
    first = next((i for i, e in enumerate(exponents) if e), None)
    if first is None:
        return {(): 1}
    found: dict[tuple[tuple[int, int], ...], int] = {}
    rest = _lower(exponents, first)
    for j, power in enumerate(rest):
        if power:
            for pairs, count in counted_pairings(_lower(rest, j)).items():
                key = tuple(sorted((*pairs, (first, j))))
                found[key] = found.get(key, 0) + power * count
    return found


def gaussian_polynomial(
    integrand: Expr, variables: Sequence[Symbol], covariance: Mapping[tuple[Symbol, Symbol], Expr]
) -> Expr | None:
    """E of a polynomial in centred Gaussian variables, its sums of products as they come; None for what is none."""
    if not variables:
        return integrand
    try:
        polynomial = sympy.Poly(integrand, *variables)
    except sympy.PolynomialError:
        return None
    # Poly takes f(x) for a constant coefficient of a polynomial in x
    if any(g.free_symbols & set(variables) for c in polynomial.coeffs() for g in c.atoms(sympy.Function)):
        return None
    if polynomial.total_degree() > _HIGHEST_DEGREE:
        return None
    rows = [[covariance[a, b] for b in variables] for a in variables]
    known: dict[Exponents, Expr] = {}
    return sympy.Add(*(c * _monomial(powers, rows, known) for powers, c in polynomial.terms()))


def _monomial(exponents: Exponents, covariance: Sequence[Sequence[Expr]], known: dict[Exponents, Expr]) -> Expr:
    # odd moments of centred variables vanish
    if not any(exponents) or sum(exponents) % 2:
        return S(int(not any(exponents)))
    if exponents not in known:
        parts = (c * _monomial(rest, covariance, known) for c, rest in by_parts(exponents, covariance))
        known[exponents] = sympy.Add(*parts)
    return known[exponents]


class GaussianMoments:
    """Means of polynomials times steps under one law; remembers what it has computed."""

    def __init__(self, law: Law, orthant: OrthantProbability) -> None:
        self.law, self._orthant = law, orthant
        self._memo: dict[tuple[Exponents, tuple[Affine, ...]], Expr] = {}

    def polynomial(self, terms: Iterable[tuple[Exponents, Expr]], steps: tuple[Affine, ...]) -> Expr:
        """The mean of a polynomial times steps; repeated steps are first merged (else one's delta meets another)."""
        merged_steps = merged(self.law, steps)
        if merged_steps is None:
            return S.Zero
        steps = merged_steps
        return tidy(sympy.Add(*(c * self.monomial(e, steps) for e, c in terms if c != 0)))

    def monomial(self, exponents: Exponents, steps: tuple[Affine, ...]) -> Expr:
        """E[g^exponents · Π step]."""
        key = (exponents, steps)
        if key not in self._memo:
            self._memo[key] = self._by_parts(exponents, steps)
        return self._memo[key]

    def _by_parts(self, exponents: Exponents, steps: tuple[Affine, ...]) -> Expr:
        first = next((i for i, e in enumerate(exponents) if e), None)
        if first is None:
            return self._orthant(self.law, steps)
        rest = _lower(exponents, first)
        parts = [c * self.monomial(lower, steps) for c, lower in by_parts(exponents, self.law.covariance)]
        # ∂_i of a step is a delta times the slope of its form: C a in place of one row of C
        for k, form in enumerate(steps):
            c = self.law.times(form.slope)[first]
            if c != 0:
                parts.append(c * delta_mean(self.law, rest, form, steps[:k] + steps[k + 1 :], self._orthant))
        return tidy(sympy.Add(*parts))


def _lower(exponents: Exponents, place: int) -> Exponents:
    return (*exponents[:place], exponents[place] - 1, *exponents[place + 1 :])


def delta_mean(
    law: Law, exponents: Exponents, form: Affine, steps: tuple[Affine, ...], orthant: OrthantProbability
) -> Expr:
    """E[δ(form) · g^exponents · Π step]."""
    mean, conditional = law.given(form)
    terms = shifted(exponents, mean)
    # given ℓ = −c the other forms move by their regression on ℓ, and their law is the conditional one
    moved = tuple(s.shifted(mean) for s in steps)
    given = GaussianMoments(conditional, orthant).polynomial(terms.items(), moved)
    return law.density(form) * given if given != 0 else S.Zero
