"""Exact numbers in a short form: quotients of polynomials in √π, an exponential, roots of primes and other constants.

Means of one program hold few different constants, in sums of hundreds of terms: as polynomials in these they cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import sympy
from sympy import Dummy, Expr, Rational, S

from tplimits.program.parts import found

#: sums with more operations, or made of more different constants, are left as they are
_LONGEST, _MOST = 4000, 4


def tidy(number: Expr) -> Expr:
    """A short form of a number."""
    if number.is_Rational or number.free_symbols or number.count_ops() > _LONGEST:
        return number
    generators = _Generators(_unit(number))
    written = generators.written(number)
    if len(generators.meant) > _MOST:
        return number
    above, below = (generators.reduced(part) for part in sympy.fraction(sympy.cancel(written)))
    above, below = sympy.fraction(generators.in_pi(sympy.cancel(above / below)))
    shorter = (above / sympy.factor(below)).xreplace(generators.meant)
    return sympy.radsimp(shorter) if generators.has_roots(below) else shorter


def _unit(number: Expr) -> Expr:
    """The largest r with every exponent of e, that is a ratio, a multiple of it."""
    exponents = [e.args[0] if e.func is sympy.exp else S.One for e in found(number, sympy.exp, type(sympy.E))]
    return sympy.gcd_list([r for r in exponents if r.is_Rational] or [S.One])


@dataclass
class _Generators:
    """The constants of one number as symbols."""

    unit: Expr
    meant: dict[Expr, Expr] = field(default_factory=dict)
    _named: dict[Expr, Expr] = field(default_factory=dict)
    #: roots of primes
    _primes: dict[Expr, int] = field(default_factory=dict)

    def written(self, expr: Expr) -> Expr:
        """A number as a quotient of polynomials in symbols."""
        if expr.is_Rational:
            return expr
        if expr is S.Pi:
            return self._name(sympy.sqrt(S.Pi)) ** 2
        if expr is S.Exp1 or (isinstance(expr, sympy.exp) and expr.args[0].is_Rational):
            power = (S.One if expr is S.Exp1 else expr.args[0]) / self.unit
            return self._name(sympy.exp(self.unit)) ** power
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            return expr.func(*map(self.written, expr.args))
        if isinstance(expr, sympy.Pow) and expr.exp.is_Rational:
            return self._power(expr.base, expr.exp)
        return self._name(expr)

    def _power(self, base: Expr, power: Rational) -> Expr:
        if power.is_Integer or base is S.Pi:
            return self.written(base) ** power
        if base.is_Integer and base > 0 and power.q == 2:
            factors = sympy.factorint(base).items()
            return sympy.Mul(*(self._root(int(q)) ** (2 * power * k) for q, k in factors))
        return self._name(base ** Rational(1, power.q)) ** power.p

    def _root(self, prime: int) -> Expr:
        name = self._name(sympy.sqrt(prime))
        self._primes[name] = prime
        return name

    def _name(self, constant: Expr) -> Expr:
        if constant not in self._named:
            self._named[constant] = Dummy(f"c{len(self._named)}", positive=True)
            self.meant[self._named[constant]] = constant
        return self._named[constant]

    def in_pi(self, quotient: Expr) -> Expr:
        """With π for √π · √π, where all powers are even."""
        root = self._named.get(sympy.sqrt(S.Pi), S.NaN)
        powers = [p for p in found(quotient, sympy.Pow) if p.base == root]
        if any(p.exp % 2 for p in powers) or quotient.xreplace(dict.fromkeys(powers, S.One)).has(root):
            return quotient
        return quotient.xreplace({p: self._name(S.Pi) ** (p.exp / 2) for p in powers})

    def has_roots(self, expr: Expr) -> bool:
        """Whether roots of primes stand in it."""
        return not self._primes.keys().isdisjoint(expr.free_symbols)

    def reduced(self, polynomial: Expr) -> Expr:
        """With q for √q · √q."""

        def whole(name: Expr, prime: int) -> Callable[[Expr, Expr], Expr]:
            return lambda base, k: prime ** (k // 2) * name ** (k % 2) if base == name else base**k

        expanded = sympy.expand(polynomial) if self.has_roots(polynomial) else polynomial
        for name, prime in self._primes.items():
            expanded = expanded.replace(sympy.Pow, whole(name, prime))
        return expanded
