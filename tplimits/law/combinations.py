"""Kets as combinations of random factors: their terms, sums and derivatives, and names for long factors."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.expanding import expanded, is_long, times, total, with_sech
from tplimits.law.means import BoxMean
from tplimits.law.moments import Moment, NamedMoments
from tplimits.program.nodes.hidden_jumps import hidden_jumps, slope
from tplimits.program.parts import found, holds, symbols

if TYPE_CHECKING:
    from tplimits.law.gaussians import Gaussians

#: a sum of more products has too many operations to stand for itself
_MANY_PRODUCTS = 8


class Combinations(NamedMoments):
    """The linear structure of the kets of one derivation."""

    def __init__(self, gaussians: Gaussians, moments: dict[Symbol, Moment] | None = None) -> None:
        super().__init__(gaussians, moments)
        self._terms: dict[Expr, dict[Expr, Expr]] = {}
        self._curved: dict[Expr, list[Expr]] = {}
        self._slopes: dict[Symbol, Symbol | None] = {}
        self._long_derivatives: dict[tuple[Symbol, Symbol], Expr] = {}

    def terms(self, expr: Expr) -> dict[Expr, Expr]:
        """The expression as Σ coefficient · product of random factors; the key 1 is the constant."""
        split = self._terms.get(expr)
        if split is None:
            alone = expr.is_Symbol and self.gaussians.is_random(expr)
            split = self._terms[expr] = {expr: S.One} if alone else self._split(expr, None)
        return split

    def _split(self, expr: Expr, over: frozenset[Symbol] | None) -> dict[Expr, Expr]:
        collected: dict[Expr, list[Expr]] = {}
        for term in sympy.Add.make_args(expanded(expr, self._random, self._finite)):
            constant: list[Expr] = []
            random: list[Expr] = []
            for factor in sympy.Mul.make_args(term):
                (random if self._is_random(factor, over) else constant).append(factor)
            # coefficients are added up at the end: a sum that grows term by term is flattened anew each time
            collected.setdefault(sympy.Mul(*random), []).append(sympy.Mul(*constant))
        result = {a: sympy.Add(*parts) for a, parts in collected.items()}
        return {a: c for a, c in result.items() if c != 0}

    def _random(self, expr: Expr) -> bool:
        """Whether an expression holds a random variable at all, boxed ones included."""
        return any(self.gaussians.is_random(s) for s in found(expr, Symbol))

    @abstractmethod
    def _finite(self, term: Expr) -> bool:
        """Whether a term has a mean of its own."""

    def _is_random(self, expr: Expr, over: frozenset[Symbol] | None) -> bool:
        if expr.is_Symbol and over is None:
            return self.gaussians.is_random(expr)
        if expr.is_number:
            return False
        if over is not None:
            # a box mean counts as random: its own boxes may have to be merged with those integrated over
            return not over.isdisjoint(self.gaussians.of(expr)) or holds(expr, BoxMean)
        return any(map(self.gaussians.is_random, symbols(expr))) or holds(expr, BoxMean)

    def combination(self, parts: Iterable[tuple[Expr, Expr]]) -> Expr:
        """Σ coefficient · ket, with like terms collected."""
        gathered: dict[Expr, list[tuple[Expr, Expr]]] = {}
        for factor, expr in parts:
            for atom, c in self.terms(expr).items():
                gathered.setdefault(atom, []).append((factor, c))
        sums = {atom: self._summed(products) for atom, products in gathered.items()}
        collected = {a: c for a, c in sums.items() if c != 0}
        result = total([times(c, a) for a, c in collected.items()])
        # the next layer asks for the terms of this very sum: splitting it again would be quadratic in the depth
        self._terms.setdefault(result, collected)
        return result

    def _summed(self, products: list[tuple[Expr, Expr]]) -> Expr:
        """Σ c·d, under a name where it is certainly long.

        Products of names and sums do not cancel one another; each of the other terms cancels at most one of them.
        """
        if len(products) > _MANY_PRODUCTS:
            pairs = list(map(frozenset, products))
            # equal pairs add up to one term, so distinct ones are counted
            staying = [pair for pair, product in zip(pairs, products, strict=True) if _stays(*product)]
            if len(set(staying)) - (len(pairs) - len(staying)) > _MANY_PRODUCTS:
                return self.named_sum(products, pairs)
        return self.named(total([times(c, d) for c, d in products]))

    def derivative(self, expr: Expr, symbol: Symbol) -> Expr:
        """∂expr/∂symbol; boxed copies of the symbol do not count (slot 0 only)."""
        terms = self.terms(expr)
        parts = [terms[symbol]] if symbol in terms else []
        for atom in self._curved_atoms(expr):
            if atom != symbol and symbol in self.gaussians.of(atom):
                parts.append(times(terms[atom], self._atom_derivative(atom, symbol)))
        return with_sech(total(parts))

    def _curved_atoms(self, expr: Expr) -> list[Expr]:
        """The atoms of the terms that are no variables: a variable depends on itself alone."""
        if expr not in self._curved:
            self._curved[expr] = [a for a in self.terms(expr) if a not in self.gaussians]
        return self._curved[expr]

    def _atom_derivative(self, atom: Expr, symbol: Symbol) -> Expr:
        """The chain rule through names of long factors."""
        if atom in self.gaussians.long:
            return self._long_derivative(atom, symbol)
        parts = [slope(atom, symbol)] if symbol in symbols(atom) else []
        for name in sorted((s for s in symbols(atom) if s in self.gaussians.long), key=lambda s: s.name):
            # the chain rule goes through names: free symbols alone do not show the variables behind them
            if symbol in self.gaussians.long[name].variables:
                parts.append(slope(atom, name) * self._long_derivative(name, symbol))
        return sympy.Add(*parts)

    def _long_derivative(self, name: Symbol, symbol: Symbol) -> Expr:
        key = (name, symbol)
        if key not in self._long_derivatives:
            if self.gaussians.long[name].has_jump:  # deltas decide how a coefficient is taken: they are looked for now
                value = self._chain_rule(name, symbol)
                if is_long(value):
                    value = self.gaussians.name_long(f"∂{name}/∂{symbol}", value)
            else:
                value = self.gaussians.name_derivative(name, symbol, functools.partial(self._chain_rule, name, symbol))
            self._long_derivatives[key] = value
        return self._long_derivatives[key]

    def _chain_rule(self, name: Symbol, symbol: Symbol) -> Expr:
        definition = self.gaussians.long[name].definition
        outer = self._slope(name, definition)
        if outer is None:
            return self.derivative(definition, symbol)
        return outer * self.derivative(definition.args[0], symbol)

    def _slope(self, name: Symbol, definition: Expr) -> Expr | None:
        """f' of a long factor f(argument), under one name for all variables; None for other factors."""
        # one slope serves the derivatives by all variables
        if not isinstance(definition, sympy.Function) or len(definition.args) != 1 or hidden_jumps(definition):
            return None
        if name not in self._slopes:
            outer = with_sech(definition.fdiff())
            self._slopes[name] = None if holds(outer, sympy.DiracDelta) else self.gaussians.name_long(f"{name}′", outer)
        return self._slopes[name]

    def shortened(self, expr: Expr, label: str) -> Expr:
        """The expression with its long random factors under names of their own."""
        if not is_long(expr):
            return expr
        parts = []
        for atom, c in self.terms(expr).items():
            # box means are merged and deltas integrated, for which both have to be seen
            if is_long(atom) and not holds(atom, BoxMean, sympy.DiracDelta):
                atom = self.gaussians.name_long(label, atom)
            parts.append(times(c, atom))
        return total(parts)

    def lengthened(self, expr: Expr) -> Expr:
        """An expression that is just a name, as its definition (one level)."""
        long = self.gaussians.long
        return expr.xreplace({s: long[s].definition for s in expr.free_symbols if s in long})


def _stays(c: Expr, d: Expr) -> bool:
    """Whether a product is a term of its own in every sum: of a name and a name or a sum."""
    return bool((c.is_Symbol and (d.is_Symbol or d.is_Add)) or (c.is_Add and d.is_Symbol))
