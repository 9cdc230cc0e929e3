"""Expansions in powers of ε = n^(−1/2), by arithmetic of truncated series.

Sums, products, powers and functions of series are series again, term by term: (c ε^l (1 + δ))^e = c^e ε^(l e) Σ_k
binom(e, k) δ^k, and f(a + δ) = Σ_k f⁽ᵏ⁾(a) δ^k/k!.  That covers numbers of a program with several poles and zeros at
ε = 0, such as (tanh(1 + ε) − tanh(1))²/ε², in a fraction of the time of a general algorithm for limits.

>>> e = Symbol("ε", positive=True)
>>> laurent((sympy.exp(e) - 1) ** 2 / e**2, e, 1)
Series(terms={0: 1, 1: 1}, cut=1)
>>> laurent(1 / sympy.sqrt(e**-2 + 1), e, 3)
Series(terms={1: 1, 3: -1/2}, cut=3)
>>> laurent(sympy.sqrt(e), e, 3) is None
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import GaussMean, variable
from tplimits.regimes.depth.algebra.products import EPS

#: orders beyond those asked for, lost to divisions by powers of ε, up to which it is tried again
_FURTHER = 24
#: the argument of functions of one scalar
ARGUMENT = variable("argument")
_TAU = Symbol("τ", positive=True)


@dataclass(frozen=True)
class Series:
    """Σ terms[k] ε^k; terms above `cut` are missing (None: none are)."""

    terms: Mapping[int, Expr]
    cut: int | None = None

    @property
    def lowest(self) -> int | None:
        """The leading order; None of zero."""
        return min(self.terms, default=None)


class _NoSeries(Exception):
    """An expression without an expansion in whole powers."""


class _TooShort(Exception):
    """No term of a series is known, and one is needed."""


#: the series of a mean over a standard normal, from the function that gives the series of its integrand
MeanSeries = Callable[[GaussMean, Callable[[Expr], Series]], Series]


def laurent(expr: Expr, eps: Symbol, limit: int, mean: MeanSeries | None = None) -> Series | None:
    """The expansion of an expression in ε > 0 up to ε^limit at least; None where there is none in whole powers."""
    working = limit
    while working <= limit + _FURTHER:
        try:
            found = _Expansion(eps, working, mean).series(expr)
        except _NoSeries:
            return None
        except _TooShort:
            working += 2
            continue
        if found.cut is None or found.cut >= limit:
            kept = {k: c for k, c in sorted(found.terms.items()) if k <= limit or found.cut is None}
            return Series(kept, None if found.cut is None else limit)
        working += limit - found.cut
    return None


def expansion(expr: Expr, limit: int, mean: MeanSeries | None = None) -> tuple[Expr, int | None]:
    """An expression in ε as a sum of its powers, and the order up to which it is known (None: all)."""
    expanded = sympy.expand(expr)
    if not expanded.has(EPS):
        return expanded, None
    if all(_is_power(t) for t in sympy.Add.make_args(expanded)):
        return expanded, None
    series = laurent(expr, EPS, limit, mean)
    if series is None and (roots := _roots(expr)) > 1:
        series = _in_roots(expr, roots, limit, mean)
    if series is None:
        shown = expr.xreplace({EPS: 1 / sympy.sqrt(Symbol("n"))})
        raise NoLimitError(
            f"`{shown}` has no expansion in whole powers of n^(-1/2), the powers that a layer of depth proportional to "
            "width can have. Write powers of tp.n as exact multiples of 1/2, as in tp.sqrt(tp.n) or tp.n**2, and "
            "functions of them without a singular point as n → ∞."
        )
    return sympy.Add(*(c * EPS**k for k, c in series.terms.items())), series.cut


def _roots(expr: Expr) -> int:
    """The q for which powers of ε in an expression are whole powers of ε^(1/q)."""
    return math.lcm(*(int(p.exp.q) for p in expr.atoms(sympy.Pow) if p.base == EPS and p.exp.is_Rational))


def _in_roots(expr: Expr, roots: int, limit: int, mean: MeanSeries | None) -> Series | None:
    """The expansion by way of τ = ε^(1/roots), where powers of τ that are none of ε cancel.

    >>> root = sympy.sqrt(EPS)
    >>> _in_roots(sympy.tanh(2 * root) / root, 2, 1, None).terms
    {0: 2, 1: -8/3}
    """
    found = laurent(expr.replace(EPS, _TAU**roots), _TAU, limit * roots, mean)
    if found is None or any(k % roots for k in found.terms):
        return None
    return Series({k // roots: c for k, c in found.terms.items()}, None if found.cut is None else found.cut // roots)


def _is_power(term: Expr) -> bool:
    rest, power = term.as_independent(EPS, as_Add=False)
    base, exponent = power.as_base_exp()
    return not rest.has(EPS) and (power == 1 or (base == EPS and exponent.is_Integer))


class _Expansion:
    """Series up to one order."""

    def __init__(self, eps: Symbol, most: int, mean: MeanSeries | None) -> None:
        self.eps, self.most, self.mean = eps, most, mean

    def series(self, expr: Expr) -> Series:
        """The series of an expression."""
        if not expr.has(self.eps):
            return Series({0: expr} if expr != 0 else {})
        if expr == self.eps:
            return Series({1: S.One})
        if expr.is_Add:
            return self._sum([self.series(a) for a in expr.args])
        if expr.is_Mul:
            found = Series({0: S.One})
            for a in expr.args:
                found = self._product(found, self.series(a))
            return found
        if expr.is_Pow and not expr.exp.has(self.eps):
            return self._power(self.series(expr.base), expr.exp)
        if expr.is_Pow and not expr.base.has(self.eps):
            return self.series(sympy.exp(expr.exp * sympy.log(expr.base)))
        if isinstance(expr, GaussMean) and self.mean is not None:
            return self.mean(expr, self.series)
        if isinstance(expr, (sympy.Function, sympy.exp)) and len(expr.args) == 1:
            return self._function(expr.func(ARGUMENT), self.series(expr.args[0]))
        raise _NoSeries

    def _sum(self, parts: list[Series]) -> Series:
        found: dict[int, Expr] = {}
        cut = min((p.cut for p in parts if p.cut is not None), default=None)
        for k in sorted({k for p in parts for k in p.terms if cut is None or k <= cut}):
            total = sympy.expand(sympy.Add(*(p.terms.get(k, S.Zero) for p in parts)))
            if total != 0:
                found[k] = total
        return Series(found, cut)

    def _product(self, a: Series, b: Series) -> Series:
        if a.lowest is None or b.lowest is None:
            if any(s.lowest is None and s.cut is None for s in (a, b)):
                return Series({})  # zero, exactly, whatever is missing in the other
            low_a = a.lowest if a.lowest is not None else (a.cut or 0) + 1
            low_b = b.lowest if b.lowest is not None else (b.cut or 0) + 1
            return Series({}, low_a + low_b - 1)
        cuts = [None if a.cut is None else a.cut + b.lowest, None if b.cut is None else b.cut + a.lowest]
        known = [c for c in cuts if c is not None]
        sums: dict[int, list[Expr]] = {}
        for i, x in a.terms.items():
            for j, y in b.terms.items():
                sums.setdefault(i + j, []).append(x * y)
        if known or max(sums) > self.most:
            known.append(max(self.most, a.lowest + b.lowest))
        cut = min(known, default=None)
        totals = {k: sympy.expand(sympy.Add(*t)) for k, t in sorted(sums.items()) if cut is None or k <= cut}
        return Series({k: t for k, t in totals.items() if t != 0}, cut)

    def _power(self, base: Series, exponent: Expr) -> Series:
        if exponent.is_Integer and 0 < exponent <= 8:
            found = base
            for _ in range(int(exponent) - 1):
                found = self._product(found, base)
            return found
        lowest, leading = self._leading(base)
        order = lowest * exponent
        if not order.is_Integer:
            raise _NoSeries
        relative = {k - lowest: sympy.expand(c / leading) for k, c in base.terms.items() if k > lowest}
        rest = Series(relative, None if base.cut is None else base.cut - lowest)
        grown = self._composed(rest, lambda k: sympy.binomial(exponent, k), self.most - int(order))
        return self._product(grown, Series({int(order): leading**exponent}))

    def _leading(self, base: Series) -> tuple[int, Expr]:
        """The first coefficient that is not zero in disguise."""
        for k, c in sorted(base.terms.items()):
            if not c.is_Add or sympy.simplify(c) != 0:
                return k, c
        raise _NoSeries if base.cut is None else _TooShort

    def _function(self, function: Expr, inner: Series) -> Series:
        if inner.lowest is not None and inner.lowest < 0:
            raise _NoSeries
        start = inner.terms.get(0, S.Zero)
        derivatives = [function]

        def coefficient(k: int) -> Expr:
            while len(derivatives) <= k:
                derivatives.append(derivatives[-1].diff(ARGUMENT))
            value = derivatives[k].xreplace({ARGUMENT: start})
            if value.has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity) or value.has(
                sympy.DiracDelta, sympy.Derivative, sympy.Subs
            ):
                raise _NoSeries
            return value / sympy.factorial(k)

        rest = Series({k: c for k, c in inner.terms.items() if k > 0}, inner.cut)
        return self._composed(rest, coefficient, self.most)

    def _composed(self, small: Series, coefficient: Callable[[int], Expr], most: int) -> Series:
        """Σ_k coefficient(k) δ^k for δ of order ε or less."""
        least = small.lowest
        first = Series({0: coefficient(0)})
        if least is None:
            return Series(first.terms, small.cut)
        parts, power = [first], Series({0: S.One})
        for k in range(1, max(0, most) // least + 1):
            power = self._product(power, small)
            parts.append(self._product(Series({0: coefficient(k)}) if coefficient(k) != 0 else Series({}), power))
        found, cut = self._sum(parts), max(0, most)
        cut = cut if found.cut is None else min(cut, found.cut)
        return Series({k: c for k, c in found.terms.items() if k <= cut}, cut)
