"""Probabilities that up to three Gaussian forms are all positive.

    P(ℓ + c > 0) = (1 + erf(c / (s√2))) / 2                              s² = Var ℓ
    P(ℓ1 > 0, ℓ2 > 0) = 1/4 + arcsin(ρ12) / 2π                           (Sheppard)
    P(ℓ1, ℓ2, ℓ3 > 0) = 1/8 + (arcsin ρ12 + arcsin ρ13 + arcsin ρ23) / 4π

Independent groups multiply; collinear forms are merged first (ℓ2 = rℓ1: one of them is enough for
r > 0, the event is null for r < 0).  Two correlated forms with an offset, or more than three forms,
have no elementary probability: NotClosed.

References: Sheppard, Phil. Trans. A 192 (1899); Cho & Saul, NIPS 2009, for what polynomials of
steps become (the arc-cosine kernels); Johnson & Kotz, Continuous Multivariate Distributions, ch. 35.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import sympy
from sympy import Expr, Rational, S

from tplimits.law.closed_forms.integrand import Affine, Law, NotClosed, tidy
from tplimits.program.parts import linked


def _sign(expr: Expr) -> int:
    """The sign of a number or of an expression SymPy can judge; NotClosed otherwise."""
    if expr.is_zero:
        return 0
    if expr.is_positive:
        return 1
    if expr.is_negative:
        return -1
    raise NotClosed


def merged(law: Law, steps: tuple[Affine, ...]) -> tuple[Affine, ...] | None:
    """Steps without constants and collinear repetitions; None when the product is null."""
    kept: list[Affine] = []
    for form in steps:
        variance = law.inner(form.slope, form.slope)
        if variance == 0:
            if _sign(form.constant) <= 0:
                return None
            continue
        for i, other in enumerate(kept):
            base, cross = law.inner(other.slope, other.slope), law.inner(other.slope, form.slope)
            # collinear where Cauchy's inequality is an equality
            if cross == 0 or tidy(cross**2 - variance * base) != 0:
                continue
            ratio = cross / base
            offset = tidy(form.constant / ratio)  # step(r ℓ + c) is step(ℓ + c/r) or step(−ℓ − c/r)
            # ℓ > −c and −ℓ > −c′ have an interval in common, or nothing
            if _sign(ratio) < 0:
                if _sign(tidy(other.constant - offset)) <= 0:
                    return None
                # the interval has a probability with two error functions, which no row needs so far
                raise NotClosed
            # of two half-lines in one direction the smaller one is the event
            if _sign(tidy(offset - other.constant)) < 0:
                kept[i] = form
            break
        else:
            kept.append(form)
    return tuple(kept)


def orthant_probability(law: Law, steps: tuple[Affine, ...]) -> Expr:
    """P(every form is positive)."""
    forms = merged(law, steps)
    if forms is None:
        return S.Zero
    result = S.One

    def correlated(a: AbstractSet[Affine], b: AbstractSet[Affine]) -> bool:
        return any(law.inner(x.slope, y.slope) != 0 for x in a for y in b)

    for group, _ in linked(((form, (form,)) for form in forms), correlated):
        result *= _connected(law, group)
    return result


def _correlation(law: Law, a: Affine, b: Affine) -> Expr:
    first, second = law.inner(a.slope, a.slope), law.inner(b.slope, b.slope)
    # √(s²) is not simplified to s where the sign of s is not known
    if first == second:
        return law.inner(a.slope, b.slope) / first
    product = tidy(first * second)
    return law.inner(a.slope, b.slope) / sympy.sqrt(product)


def _connected(law: Law, group: list[Affine]) -> Expr:
    if len(group) == 1:
        (form,) = group
        if form.constant == 0:
            return Rational(1, 2)
        deviation = sympy.sqrt(2 * law.inner(form.slope, form.slope))
        return (1 + sympy.erf(form.constant / deviation)) / 2
    if any(form.constant != 0 for form in group):
        raise NotClosed
    pairs = [(a, b) for i, a in enumerate(group) for b in group[i + 1 :]]
    angles = sympy.Add(*(sympy.asin(_correlation(law, a, b)) for a, b in pairs))
    if len(group) == 2:
        return Rational(1, 4) + angles / (2 * sympy.pi)
    if len(group) == 3:
        return Rational(1, 8) + angles / (4 * sympy.pi)
    raise NotClosed
