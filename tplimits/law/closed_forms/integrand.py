"""What a closed form is asked: the mean of a product of recognised factors under a Gaussian law.

    E[ P(g) · Π step(ℓ_i + c_i) · Π δ(m_j + d_j) · exp(Q(g)) · Π trig(t_k + e_k) · Π erf(u_l + f_l) ]

with g centred Gaussian with covariance C, P a polynomial, ℓ, m, t, u linear in g and Q at most
quadratic.  Coefficients may be symbols (constants, other moments, entries held fixed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import mpmath
import sympy
from sympy import Expr, Matrix, S, Symbol

from tplimits.program.nodes.digits import value_of
from tplimits.program.nodes.functions import step
from tplimits.program.parts import holds, longer, remembered


class NotClosed(Exception):
    """No rule of the table closes this mean; it stays an unevaluated expectation."""


@dataclass(frozen=True)
class Affine:
    """A linear form in the variables plus a constant: (coefficients in order, constant)."""

    slope: tuple[Expr, ...]
    constant: Expr

    def shifted(self, mean: Sequence[Expr]) -> Affine:
        """The same form of g + mean, as a form of g."""
        moved = sympy.Add(*(a * m for a, m in zip(self.slope, mean, strict=True)))
        return Affine(self.slope, tidy(self.constant + moved))

    def extended(self, by: int = 1) -> Affine:
        return Affine(self.slope + (S.Zero,) * by, self.constant)


@dataclass(frozen=True)
class Law:
    """A centred Gaussian law: its covariance matrix, row by row."""

    covariance: tuple[tuple[Expr, ...], ...]

    @property
    def size(self) -> int:
        return len(self.covariance)

    def times(self, slope: Sequence[Expr]) -> tuple[Expr, ...]:
        """C a."""
        return tuple(
            tidy(sympy.Add(*(c * a for c, a in zip(row, slope, strict=True) if c != 0 and a != 0)))
            for row in self.covariance
        )

    def inner(self, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        """aᵀ C b."""
        return tidy(sympy.Add(*(x * y for x, y in zip(a, self.times(b), strict=True) if x != 0 and y != 0)))

    def with_independent(self, variance: Expr = S.One) -> Law:
        """The law with one more, independent, variable."""
        rows = tuple((*row, S.Zero) for row in self.covariance)
        return Law((*rows, (S.Zero,) * self.size + (variance,)))

    def variance(self, form: Affine) -> Expr:
        """Of what a delta is taken of: that of a constant is 0 or infinite, no mean."""
        variance = self.inner(form.slope, form.slope)
        if variance == 0:
            raise NotClosed
        return variance

    def density(self, form: Affine) -> Expr:
        """The density of an affine form of g at 0: E[δ(form) F] is this times E[F | form = 0]."""
        variance = self.variance(form)
        return sympy.exp(-(form.constant**2) / (2 * variance)) / sympy.sqrt(2 * sympy.pi * variance)

    def given(self, form: Affine) -> tuple[tuple[Expr, ...], Law]:
        """Mean and law of g given that an affine form of it vanishes."""
        ca = self.times(form.slope)
        variance = self.variance(form)
        mean = tuple(tidy(-form.constant * c / variance) for c in ca)
        rows = tuple(
            tuple(tidy(self.covariance[i][j] - ca[i] * ca[j] / variance) for j in range(self.size))
            for i in range(self.size)
        )
        return mean, Law(rows)


def eigenvalues(matrix: Matrix) -> list[float]:
    """The eigenvalues of a numerical matrix similar to a symmetric one (so they are real)."""
    if matrix.shape == (1, 1):
        return [float(matrix[0, 0])]
    # a criterion on the last digit, whether a mean exists, is decided from them: more digits than a double has
    with mpmath.workdps(30):
        rows = [[mpmath.mpf(str(x.evalf(30))) for x in row] for row in matrix.tolist()]
        found = mpmath.eig(mpmath.matrix(rows), left=False, right=False)
        return [float(mpmath.re(e)) for e in found]


#: a coefficient with more nodes than this is given up: nobody reads it, and simplifying it takes minutes
_MOST_NODES: ContextVar[int] = ContextVar("_MOST_NODES", default=200)
_MOST_CANCELLED: ContextVar[int] = ContextVar("_MOST_CANCELLED", default=60)


@contextmanager
def patience(nodes: int) -> Iterator[None]:
    """For a while, coefficients of so many nodes are brought into their shortest form."""
    before = [(limit, limit.set(nodes)) for limit in (_MOST_NODES, _MOST_CANCELLED)]
    try:
        yield
    finally:
        for limit, token in before:
            limit.reset(token)


def most_nodes() -> int:
    """How long coefficients may be at present."""
    return _MOST_NODES.get()


def tidy(expr: Expr) -> Expr:
    """Cheap canonical form of a coefficient: enough that what is zero is seen to be zero.

    NotClosed when the coefficient is too long for that: a zero that is not seen would be divided by.
    """
    if expr.is_Rational or expr.is_Symbol:
        return expr
    if longer(expr, _MOST_NODES.get()):
        raise NotClosed
    expanded = sympy.expand(expr)
    if expanded.is_Rational or not expanded.is_Add:
        return expanded
    if expanded.is_number:
        # an exact number with roots and π: zero where it has no digits, however small: 50 − 50 erf 50 is e^(−2500)/√π
        return S.Zero if value_of(expanded) == 0 else expanded
    if any(p.exp.is_negative and p.base.is_Add for p in expanded.atoms(sympy.Pow)):
        if longer(expanded, _MOST_CANCELLED.get()):
            raise NotClosed
        return sympy.cancel(sympy.together(expanded))
    return expanded


@dataclass(frozen=True)
class Integrand:
    """The recognised factors of a product; the polynomial is {exponents: coefficient}."""

    polynomial: tuple[tuple[tuple[int, ...], Expr], ...]
    steps: tuple[Affine, ...] = ()
    deltas: tuple[Affine, ...] = ()
    exponents: tuple[tuple[tuple[tuple[Expr, ...], ...], tuple[Expr, ...], Expr], ...] = ()
    waves: tuple[tuple[bool, Affine], ...] = ()
    errors: tuple[Affine, ...] = field(default=())


def _affine(expr: Expr, variables: Sequence[Symbol]) -> Affine:
    """expr as an affine form of the variables; NotClosed when it is not one."""
    if longer(expr, _MOST_NODES.get()):
        raise NotClosed
    slope = []
    rest = sympy.expand(expr)
    # coefficients are read off and put together again: what is not affine does not come back
    for v in variables:
        slope.append(rest.coeff(v, 1))
    constant = rest.xreplace(dict.fromkeys(variables, S.Zero))
    rebuilt = sympy.Add(constant, *(a * v for a, v in zip(slope, variables, strict=True)))
    # g1·g2 has a "slope" in g1 that holds g2
    if any(a.free_symbols & set(variables) for a in slope) or sympy.expand(rest - rebuilt) != 0:
        raise NotClosed
    return Affine(tuple(slope), constant)


def _quadratic(expr: Expr, variables: Sequence[Symbol]) -> tuple:
    """expr = −½ gᵀAg + bᵀg + c as (A, b, c); NotClosed beyond degree two."""
    if longer(expr, _MOST_NODES.get()):
        raise NotClosed
    try:
        poly = sympy.Poly(sympy.expand(expr), *variables)
    except sympy.PolynomialError:
        raise NotClosed from None
    if poly.total_degree() > 2 or any(c.free_symbols & set(variables) for c in poly.coeffs()):
        raise NotClosed
    size = len(variables)
    a = [[S.Zero] * size for _ in range(size)]
    b, c = [S.Zero] * size, S.Zero
    for powers, coefficient in poly.terms():
        places = [i for i, p in enumerate(powers) for _ in range(p)]
        if not places:
            c = coefficient
        elif len(places) == 1:
            b[places[0]] = coefficient
        else:
            i, j = places
            # twice on the diagonal: −½ a g² = c g² for a = −2c
            a[i][j] -= coefficient
            a[j][i] -= coefficient
    return tuple(map(tuple, a)), tuple(b), c


def recognise(factors: Sequence[Expr], variables: Sequence[Symbol]) -> Integrand:
    """Sort elementary factors into an Integrand; NotClosed at the first factor of another kind."""
    monomial = [0] * len(variables)
    found: dict[str, list] = {"steps": [], "deltas": [], "exponents": [], "waves": [], "errors": []}
    for factor in factors:
        # as_base_exp of SymPy takes exp(Q) apart into E and Q
        base, power = factor.as_base_exp() if not isinstance(factor, sympy.exp) else (factor, S.One)
        if not (power.is_Integer and power > 0):
            raise NotClosed
        if base in variables:
            monomial[list(variables).index(base)] += int(power)
        # a power of a step is the step, almost everywhere
        elif isinstance(base, step):
            found["steps"].append(_affine(base.args[0], variables))
        # neither a square of a delta nor a derivative of one has a mean by a row of the table
        elif isinstance(base, sympy.DiracDelta) and power == 1 and len(base.args) == 1:
            found["deltas"].append(_affine(base.args[0], variables))
        elif isinstance(base, sympy.exp):
            found["exponents"].append(_quadratic(base.args[0] * power, variables))
        elif isinstance(base, (sympy.sin, sympy.cos)):
            found["waves"] += [(isinstance(base, sympy.sin), _affine(base.args[0], variables))] * int(power)
        elif isinstance(base, sympy.erf):
            found["errors"] += [_affine(base.args[0], variables)] * int(power)
        else:
            raise NotClosed
    groups = {name: tuple(forms) for name, forms in found.items()}
    return Integrand(((tuple(monomial), S.One),), **groups)


#: a step of a function with more steps than this stays as it is: 2^count pieces, and none of them would close
_MOST_NESTED = 3


@remembered(10_000)
def step_products(expr: Expr) -> Expr:
    """Steps in canonical form, valid almost everywhere; hyperbolic sines as exponentials.

    The step of a product becomes products of steps, the step of a piecewise function is decided piece
    by piece, and step(−a) becomes 1 − step(a).
    """
    if not holds(expr, step, sympy.sinh, sympy.cosh):
        return expr
    args = [step_products(a) for a in expr.args]
    if isinstance(expr, (sympy.sinh, sympy.cosh)):
        return expr.func(*args).rewrite(sympy.exp)
    nested = sorted(args[0].atoms(step), key=sympy.default_sort_key) if isinstance(expr, step) else []
    if len(nested) > _MOST_NESTED:
        return expr.func(*args)
    if nested:  # piecewise: decide the inner step first
        inner = nested[0]
        on, off = (step_products(step(sympy.expand(args[0].xreplace({inner: S(v)})))) for v in (1, 0))
        return inner * on + (1 - inner) * off
    factored = sympy.factor_terms(args[0]) if isinstance(expr, step) else None
    if isinstance(factored, sympy.Mul):
        # a positive factor decides no sign and is left out
        factors = [f for f in factored.args if not f.is_nonnegative]  # zero is null
        sign = S.One
        signed: list[Expr] = []
        for f in factors:
            if f.is_negative:
                sign = -sign
            else:
                signed.append(f)
        if signed and (len(signed) > 1 or len(signed) < len(factored.args)):
            result = step(signed[0]) if sign > 0 else 1 - step(signed[0])
            for f in signed[1:]:
                # positive where an even number of factors is negative: equal signs keep it on
                result = result * step(f) + (1 - result) * (1 - step(f))
            return result
    # one of step(a) and step(−a) is written through the other, so that they cancel
    if isinstance(expr, step) and args[0].could_extract_minus_sign():
        return 1 - step(-args[0])
    return expr.func(*args)


#: a rule: takes the law, the integrand and the continuation for what is left; raises NotClosed
Rule = Callable[[Law, Integrand, Callable[[Law, Integrand], Expr]], Expr]
