"""Polynomials of Gaussians, and polynomials times steps, by integration by parts (Stein).

    E[g_i F(g)] = Σ_j C_ij E[∂_j F(g)]

Applied to a polynomial this is Isserlis' theorem.  A step differentiates to a delta, and
E[δ(ℓ + c) F] = φ_s(c) E[F | ℓ = −c] with φ_s the density of N(0, s²), s² = Var ℓ: one step less.

References: Isserlis, Biometrika 12 (1918); Stein, Ann. Statist. 9 (1981), Lemma 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import sympy
from sympy import Expr, S

from tplimits.limit.closed_forms.integrand import Affine, Law, NotClosed, tidy
from tplimits.limit.closed_forms.orthant import merged

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


class Moments:
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
        parts = []
        for j, power in enumerate(rest):
            c = self.law.covariance[first][j]
            if power and c != 0:
                parts.append(power * c * self.monomial(_lower(rest, j), steps))
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
    variance = law.inner(form.slope, form.slope)
    if variance == 0:
        raise NotClosed
    mean, conditional = law.given(form)
    density = sympy.exp(-(form.constant**2) / (2 * variance)) / sympy.sqrt(2 * sympy.pi * variance)
    terms = shifted(exponents, mean)
    moved = tuple(s.shifted(mean) for s in steps)
    return density * Moments(conditional, orthant).polynomial(terms.items(), moved)
