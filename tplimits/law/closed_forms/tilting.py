"""Exponentials of at most quadratic forms: the law is tilted.

    E[exp(−½ gᵀAg + bᵀg + c) F(g)] = det(I + CA)^(−1/2) exp(c + ½ bᵀC'b) E[F(g' + C'b)]

with g' ~ N(0, C'), C' = (I + CA)⁻¹ C.  For A = 0 this is the Cameron–Martin shift (lognormal
moments); for A positive, Gaussian bumps.  It needs I + C^½AC^½ positive definite, otherwise the
moment is infinite.

Sines and cosines are exponentials of imaginary forms (A = 0, b = it), summed in conjugate pairs.

References: Cameron & Martin, Ann. Math. 45 (1944); Williams, Neural Comput. 10 (1998), for bumps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import sympy
from sympy import Expr, Matrix, S
from sympy.polys.matrices import DomainMatrix

from tplimits.errors import NoLimitError
from tplimits.law.closed_forms.integrand import Affine, Integrand, Law, NotClosed, eigenvalues, tidy
from tplimits.law.closed_forms.isserlis import shifted

Rest = Callable[[Law, Integrand], Expr]


class InfiniteMoment(NoLimitError):
    """An exponential moment diverges, and this has been decided."""


def moved(integrand: Integrand, mean: tuple[Expr, ...]) -> Integrand:
    """The integrand of g + mean as an integrand of g (waves, errors, steps, deltas, polynomial)."""
    polynomial: dict[tuple[int, ...], Expr] = {}
    for exponents, c in integrand.polynomial:
        for key, factor in shifted(exponents, mean).items():
            polynomial[key] = polynomial.get(key, S.Zero) + c * factor
    return replace(
        integrand,
        polynomial=tuple((e, tidy(c)) for e, c in polynomial.items()),
        steps=tuple(f.shifted(mean) for f in integrand.steps),
        deltas=tuple(f.shifted(mean) for f in integrand.deltas),
        waves=tuple((s, f.shifted(mean)) for s, f in integrand.waves),
        errors=tuple(f.shifted(mean) for f in integrand.errors),
    )


def tilt(law: Law, integrand: Integrand, rest: Rest) -> Expr:
    """Absorb all exponential factors into the law."""
    size = law.size
    a = sum((Matrix(size, size, lambda i, j, q=q: q[0][i][j]) for q in integrand.exponents), sympy.zeros(size, size))
    b = sum((Matrix(size, 1, lambda i, _, q=q: q[1][i]) for q in integrand.exponents), sympy.zeros(size, 1))
    c = sympy.Add(*(q[2] for q in integrand.exponents))
    left = replace(integrand, exponents=())
    # linear exponents alone: the law keeps its covariance and moves by C b
    if not any(a):
        mean = law.times(tuple(b))
        weight = sympy.exp(tidy(c + law.inner(tuple(b), tuple(b)) / 2))
        return weight * rest(law, moved(left, mean))
    covariance = Matrix(law.covariance)
    # before the inverse: past the singular point the formula gives a finite number for an infinite mean
    _require_positive(covariance, a)
    # only what something reads afterwards: the adjugate is what costs, the determinant is needed in any case
    new, determinant = _tilted_law(law, a, {*_read(left), *(i for i in range(size) if b[i] != 0)})
    weight = sympy.exp(tidy(c + new.inner(tuple(b), tuple(b)) / 2)) / sympy.sqrt(determinant)
    return weight * rest(new, moved(left, new.times(tuple(b))))


def _read(integrand: Integrand) -> set[int]:
    """The variables that an integrand depends on (its exponentials left out)."""
    forms = [*integrand.steps, *integrand.deltas, *integrand.errors, *(form for _, form in integrand.waves)]
    rows = [form.slope for form in forms] + [exponents for exponents, _ in integrand.polynomial]
    return {i for row in rows for i, x in enumerate(row) if x != 0}


def _tilted_law(law: Law, a: Matrix, wanted: set[int]) -> tuple[Law, Expr]:
    """C' = (I + CA)⁻¹ C on the wanted variables, zero on the others, and det(I + CA).

    Entries get names first and the inverse is an adjugate over a determinant: both are polynomials in the names.
    Elimination on the entries themselves, brackets of many operations, would cancel long fractions at every pivot.
    """
    names: dict[Expr, Expr] = {}

    def named(x: Expr) -> Expr:
        return x if x.is_Rational else names.setdefault(x, sympy.Symbol(f"c{len(names)}"))

    covariance = Matrix(law.covariance).applyfunc(named)
    tilting = a.applyfunc(named)
    values = {name: x for x, name in names.items()}
    c = DomainMatrix.from_Matrix(covariance)
    c, factor = c.unify(DomainMatrix.from_Matrix(sympy.eye(law.size) + covariance * tilting))
    # the constant term of det(λ − M) is det(−M)
    adjugate, det = factor.adj_det() if wanted else (None, factor.charpoly()[-1] * (-1) ** law.size)
    determinant = tidy(factor.domain.to_sympy(det).xreplace(values))
    size = range(law.size)
    if adjugate is None:
        return Law(((S.Zero,) * law.size,) * law.size), determinant
    ring, products = factor.domain, (adjugate * c).to_list()

    def entry(i: int, j: int) -> Expr:
        if i not in wanted or j not in wanted:
            return S.Zero
        # cancelled in the ring of the names, where it is cheap; with values put in it is not
        upper, lower = products[i][j].cancel(det) if ring.is_Poly else (products[i][j], det)
        return tidy((ring.to_sympy(upper) / ring.to_sympy(lower)).xreplace(values))

    return Law(tuple(tuple(entry(i, j) for j in size) for i in size)), determinant


def _require_positive(covariance: Matrix, a: Matrix) -> None:
    """Decide whether I + C^½ A C^½ is positive definite (its eigenvalues are those of I + CA)."""
    # A positive semidefinite makes I + C^½AC^½ at least I, whatever C is
    if all(x.is_nonnegative for x in a.diagonal()) and a.is_diagonal():
        return
    product = covariance * a
    # whether the mean is finite depends on symbols: the integral stays, and numbers decide
    if not all(x.is_number for x in product):
        raise NotClosed
    if 1 + min(eigenvalues(product)) <= 1e-12:
        raise InfiniteMoment("the mean of an exponential of a quadratic form diverges (hypothesis: finite moments)")


def waves(law: Law, integrand: Integrand, rest: Rest) -> Expr:
    """Sines and cosines times a polynomial: imaginary tilts, in conjugate pairs."""
    # an imaginary shift of a step's argument has no meaning
    if integrand.steps or integrand.deltas or integrand.errors:
        raise NotClosed
    left = replace(integrand, waves=())
    parts = []
    # the first sign is fixed: the other half are the complex conjugates
    for signs in itertools.product((1, -1), repeat=len(integrand.waves) - 1):
        chosen = list(zip((1, *signs), integrand.waves, strict=True))
        slope = tuple(sympy.Add(*(s * form.slope[i] for s, (_, form) in chosen)) for i in range(law.size))
        phase = sympy.Add(*(s * form.constant for s, (_, form) in chosen))
        sines = [s for s, (is_sine, _) in chosen if is_sine]
        # cos = (e⁺ + e⁻)/2, sin = (e⁺ − e⁻)/2i; the pair with all signs flipped is the conjugate
        coefficient = sympy.Mul(*sines) / S.ImaginaryUnit ** len(sines) / 2 ** (len(chosen) - 1)
        parts.append(_real_part(coefficient, law, left, Affine(slope, phase), rest))
    return tidy(sympy.Add(*parts))


def _real_part(coefficient: Expr, law: Law, integrand: Integrand, form: Affine, rest: Rest) -> Expr:
    """Re( coefficient · E[exp(i form) · polynomial] )."""
    shift = tuple(S.ImaginaryUnit * c for c in law.times(form.slope))
    polynomial = rest(law, moved(integrand, shift))
    damping = sympy.exp(-law.inner(form.slope, form.slope) / 2)
    rotation = sympy.cos(form.constant) + S.ImaginaryUnit * sympy.sin(form.constant)
    value = sympy.expand(coefficient * polynomial * rotation)
    real = value.xreplace({S.ImaginaryUnit: S.Zero})  # multiplied out, i stands at most once in a term
    return damping * real
