"""Whether a ket has a finite second moment, as far as it can be told from the expression.

Heads are bounded, of polynomial growth, or exponentials; poles are looked for where a denominator
changes sign.  The verdict INFINITE is given only when it is certain, UNKNOWN whenever the analysis
does not reach.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from sympy import Expr, S, Symbol

from tplimits.limit.closed_forms.tilting import eigenvalues
from tplimits.limit.hypotheses.bounds import bounds
from tplimits.limit.hypotheses.reader import Randomness
from tplimits.limit.hypotheses.signs import Signs
from tplimits.limit.moments import BoxMean
from tplimits.program import functions


class Growth(enum.Enum):
    """How fast a ket grows in its Gaussian variables."""

    BOUNDED = 0
    POLYNOMIAL = 1
    EXPONENTIAL = 2
    UNKNOWN = 3
    INFINITE = 4


@dataclass(frozen=True)
class Verdict:
    """The growth, an exponent of polynomial growth where there is one, and the reason for a doubt."""

    kind: Growth
    degree: Expr = S.Zero
    reason: str = ""


_BOUNDED_HEADS = (
    sympy.tanh,
    sympy.sech,
    sympy.erf,
    sympy.erfc,
    sympy.sin,
    sympy.cos,
    sympy.atan,
    sympy.sign,
    functions.step,
    functions.sigmoid,
)
_LINEAR_HEADS = (
    sympy.Abs,
    sympy.asinh,
    functions.relu,
    functions.leaky_relu,
    functions.softplus,
    functions.gelu,
    functions.maximum,
    functions.minimum,
)
_JUMPING = (*functions.JUMPS, BoxMean)


def classify(expr: Expr, gaussians: Randomness) -> Verdict:
    """The growth of a ket."""
    return _Analysis(gaussians).growth(expr)


class _Analysis:
    def __init__(self, gaussians: Randomness) -> None:
        self.gaussians = gaussians
        self.signs = Signs(gaussians)

    def random(self, expr: Expr) -> bool:
        return any(self.gaussians.is_random(s) for s in expr.atoms(Symbol))

    def growth(self, expr: Expr) -> Verdict:
        if not self.random(expr):
            return Verdict(Growth.BOUNDED)
        if expr.is_Symbol:
            return self._symbol(expr)
        if isinstance(expr, sympy.Add):
            return _worst([self.growth(a) for a in expr.args], add=False)
        if isinstance(expr, sympy.Mul):
            return self._product(expr)
        if isinstance(expr, BoxMean):
            return self.growth(expr.integrand)
        if isinstance(expr, _BOUNDED_HEADS):
            inner = self._arguments(expr)
            return (
                inner
                if inner.kind in (Growth.INFINITE, Growth.UNKNOWN) and "real" in inner.reason
                else Verdict(Growth.BOUNDED)
            )
        if isinstance(expr, _LINEAR_HEADS):
            return self._arguments(expr)
        if isinstance(expr, functions.where):
            return _worst([self.growth(a) for a in expr.args[1:]], add=False)
        if isinstance(expr, sympy.exp):
            return self._exponential(expr.args[0])
        if isinstance(expr, (sympy.sinh, sympy.cosh)):
            return _worst([self._exponential(expr.args[0]), self._exponential(-expr.args[0])], add=False)
        if isinstance(expr, sympy.log):
            return self._logarithm(expr.args[0])
        if isinstance(expr, sympy.tan):
            return self._power(sympy.cos(expr.args[0]), S.NegativeOne, [sympy.sin(expr.args[0])])
        if isinstance(expr, sympy.Pow):
            return self._power(expr.base, expr.exp, [])
        return Verdict(Growth.UNKNOWN, reason=f"the growth of `{expr}` is not known")

    def _symbol(self, symbol: Symbol) -> Verdict:
        definition = self.gaussians.definition(symbol)
        if definition is None:
            return Verdict(Growth.POLYNOMIAL, S.One)
        if symbol not in self.gaussians.growths:
            self.gaussians.growths[symbol] = self.growth(definition)
        return self.gaussians.growths[symbol]

    def _arguments(self, expr: Expr) -> Verdict:
        return _worst([self.growth(a) for a in expr.args], add=False)

    def _product(self, expr: sympy.Mul) -> Verdict:
        verdicts = []
        exponentials = [f for f in expr.args if isinstance(f, sympy.exp)]
        if len(exponentials) > 1:  # their exponents add: one may tame another
            together = sympy.exp(sympy.Add(*(f.args[0] for f in exponentials)))
            return self.growth(sympy.Mul(together, *(f for f in expr.args if f not in exponentials)))
        for factor in expr.args:
            others = [f for f in expr.args if f is not factor]
            base, power = factor.as_base_exp() if isinstance(factor, sympy.Pow) else (factor, S.One)
            if power.is_negative and self.random(base):
                if self._is_share(base, power, others):
                    return _worst([self.growth(f) for f in others if not isinstance(f, sympy.exp)], add=True)
                verdicts.append(self._power(base, power, others))
            else:
                verdicts.append(self.growth(factor))
        return _worst(verdicts, add=True)

    def _is_share(self, base: Expr, power: Expr, others: Sequence[Expr]) -> bool:
        """t / (t + non-negative terms) with t ≥ 0: at most 1 (softmax weights)."""
        if power != -1 or not isinstance(base, sympy.Add):
            return False
        numerator = sympy.Mul(*(f for f in others if isinstance(f, sympy.exp)))
        terms = [t for t in base.args if t == numerator]
        return bool(terms) and all(bounds(t)[0] >= 0 for t in base.args)

    def _exponential(self, exponent: Expr) -> Verdict:
        if bounds(exponent)[1] < sympy.oo:
            return Verdict(Growth.BOUNDED)
        inner = self.growth(exponent)
        if inner.kind in (Growth.BOUNDED, Growth.POLYNOMIAL) and inner.degree <= 1:
            return Verdict(Growth.EXPONENTIAL)
        variables = sorted(
            (s for s in exponent.free_symbols if self.gaussians.is_random(s) and self.gaussians.definition(s) is None),
            key=lambda s: s.name,
        )
        if not variables:
            return Verdict(Growth.UNKNOWN, reason=f"the moments of exp({exponent}) are not decided")
        try:
            poly = sympy.Poly(sympy.expand(exponent), *variables)
        except sympy.PolynomialError:
            return self._fast_exponent(exponent, inner)
        if any(self.random(c) for c in poly.coeffs()):
            return Verdict(Growth.UNKNOWN, reason=f"the growth of exp({exponent}) is not known")
        degree = poly.total_degree()
        if degree <= 2:
            return self._gaussian_exponent(poly, variables)
        leading = {m: c for m, c in poly.terms() if sum(m) == degree}
        best = None
        for direction in itertools.product((-1, 0, 1), repeat=min(len(variables), 4)):
            point = (*direction, *(0,) * (len(variables) - len(direction)))
            value = sympy.Add(
                *(c * sympy.Mul(*(S(x) ** e for x, e in zip(point, m, strict=True))) for m, c in leading.items())
            )
            if value.is_positive:
                return Verdict(Growth.INFINITE, reason=f"exp({exponent}) grows faster than a Gaussian density decays")
            best = value if best is None else best
        if len(variables) == 1 and degree % 2 == 0 and poly.LC().is_negative:
            return Verdict(Growth.BOUNDED)
        return Verdict(Growth.UNKNOWN, reason=f"the moments of exp({exponent}) are not decided")

    def _fast_exponent(self, exponent: Expr, inner: Verdict) -> Verdict:
        """Exponents such as |x|³ or exp(x): certain when one variable alone drives them to +∞ fast."""
        variables = self.gaussians.of(exponent)
        if len(variables) == 1 and not (exponent.free_symbols - variables):
            (x,) = variables
            for sign in (1, -1):
                ratios = [sympy.re((exponent / x**2).subs(x, sign * 10.0**k).evalf()) for k in (1, 2)]
                if (
                    all(r.is_comparable or r is sympy.oo for r in ratios)
                    and ratios[0] > 1
                    and ratios[1] > 3 * ratios[0]
                ):
                    return Verdict(
                        Growth.INFINITE, reason=f"exp({exponent}) grows faster than a Gaussian density decays"
                    )
        return Verdict(Growth.UNKNOWN, reason=f"the moments of exp({exponent}) are not decided")

    def _gaussian_exponent(self, poly: sympy.Poly, variables: list[Symbol]) -> Verdict:
        """exp of a quadratic: finite second moment iff I − 2 C H is positive definite, H the Hessian."""
        expr = poly.as_expr()
        hessian = sympy.Matrix(
            len(variables), len(variables), lambda i, j: sympy.diff(expr, variables[i], variables[j])
        )
        covariance = sympy.Matrix(
            len(variables), len(variables), lambda i, j: self.gaussians.covariance(variables[i], variables[j])
        )
        product = covariance * hessian
        if not all(x.is_number for x in product):
            return Verdict(Growth.UNKNOWN, reason=f"whether exp({expr}) has a second moment depends on symbols")
        if 1 - 2 * max(eigenvalues(product)) <= 1e-12:
            return Verdict(Growth.INFINITE, reason=f"E exp(2·({expr})) diverges")
        return Verdict(Growth.EXPONENTIAL)

    def _logarithm(self, argument: Expr) -> Verdict:
        low, _ = bounds(argument)
        if low < 0 and self.signs.takes_negative(argument):
            return Verdict(Growth.INFINITE, reason=f"log({argument}) is not real with positive probability")
        if low >= 0:
            return Verdict(Growth.POLYNOMIAL, S.One)
        return Verdict(Growth.UNKNOWN, reason=f"the sign of {argument} inside log is not decided")

    def _power(self, base: Expr, power: Expr, others: Sequence[Expr]) -> Verdict:
        if not power.is_Rational:
            if self.random(power):
                return (
                    self._exponential(power * sympy.log(base))
                    if base.is_positive
                    else Verdict(Growth.UNKNOWN, reason=f"the growth of ({base})**({power}) is not known")
                )
            return Verdict(Growth.UNKNOWN, reason=f"the exponent {power} is not a number")
        inner = self.growth(base)
        low, high = bounds(base)
        if not power.is_Integer and low < 0:
            if self.signs.takes_negative(base):
                return Verdict(Growth.INFINITE, reason=f"({base})**({power}) is not real with positive probability")
            return Verdict(Growth.UNKNOWN, reason=f"the sign of {base} under a root is not decided")
        if power > 0:
            if inner.kind in (Growth.UNKNOWN, Growth.INFINITE, Growth.EXPONENTIAL):
                return inner
            return Verdict(inner.kind, inner.degree * power)
        if low > 0 or high < 0:
            return Verdict(Growth.BOUNDED)
        return self._pole(base, -power, others)

    def _pole(self, base: Expr, power: Expr, others: Sequence[Expr]) -> Verdict:
        if isinstance(base, sympy.exp):
            return self._exponential(-power * base.args[0])
        if isinstance(base, sympy.Add) and all(bounds(t)[0] >= 0 for t in base.args):
            single = [self._power(t, -power, []) for t in base.args]
            best = min(single, key=lambda v: v.kind.value)
            if best.kind.value <= Growth.EXPONENTIAL.value:
                return best
        if isinstance(base, functions.relu) and not others:
            return Verdict(Growth.INFINITE, reason=f"1/{base} is infinite with positive probability")
        core = base.args[0] if isinstance(base, sympy.Abs) else base
        if power >= S.Half and not core.has(*_JUMPING):
            point = self.signs.sign_change(core)
            if point is not None and all(self.signs.nonzero_at(f, point) for f in others):
                return Verdict(Growth.INFINITE, reason=f"({base})**({-power}) has a pole where {core} changes sign")
        if power < S.Half and isinstance(base, sympy.Abs) and base.args[0].is_Symbol:
            return Verdict(Growth.POLYNOMIAL, S.Zero)
        return Verdict(Growth.UNKNOWN, reason=f"whether ({base})**({-power}) is square integrable is not decided")


def _worst(verdicts: Sequence[Verdict], add: bool) -> Verdict:
    """The growth of a sum (largest degree) or of a product (degrees added)."""
    if not verdicts:
        return Verdict(Growth.BOUNDED)
    worst = max(verdicts, key=lambda v: v.kind.value)
    degrees = [v.degree for v in verdicts]
    return Verdict(worst.kind, sum(degrees, S.Zero) if add else max(degrees), worst.reason)
