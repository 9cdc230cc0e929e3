"""Means that vanish by symmetry: a product that changes sign with some variables whose law does not notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import sympy
from sympy import Expr, Symbol

from tplimits.program.parts import found, linked, put_in


class Turning:
    """Signs of variables turned, under the covariances of one derivation; each factor and each set once."""

    def __init__(self, covariance: Callable[[Symbol, Symbol], Expr]) -> None:
        self._covariance = covariance
        self._linked: dict[tuple[Symbol, ...], list[frozenset[Symbol]]] = {}
        self._turns: dict[tuple[Expr, frozenset[Symbol]], Expr] = {}

    def is_odd(self, product: Expr, variables: Sequence[Symbol]) -> bool:
        """Whether the product changes sign with some variables whose law does not notice."""
        return any(self._parity(product, g) == -1 for g in self._free_signs(tuple(variables)))

    def _free_signs(self, variables: tuple[Symbol, ...]) -> list[frozenset[Symbol]]:
        """Sets of variables whose signs may be turned together: those linked by covariances, and all of them."""
        if variables not in self._linked:
            together = linked(((v, (v,)) for v in variables), self._correlated)
            groups = [frozenset(group) for group, _ in together]
            # tanh(xy) of independent x and y is odd in either alone, tanh(x + y) in both together only
            self._linked[variables] = groups if len(groups) == 1 else [*groups, frozenset(variables)]
        return self._linked[variables]

    def _correlated(self, a: AbstractSet[Symbol], b: AbstractSet[Symbol]) -> bool:
        return any(self._covariance(v, w) != 0 for v in a for w in b)

    def _parity(self, product: Expr, turned: frozenset[Symbol]) -> int:
        """±1 where turning the signs of some variables gives ± the product, else 0; factors are turned once each."""
        sign, moved = 1, []
        factors = sympy.Mul.make_args(product)
        for factor in factors:
            value = self._turned(factor, turned)
            if value == factor:
                continue
            if value == -factor:
                sign = -sign
            else:
                moved.append(value)
        if not moved:
            return sign
        # x(x − y)(x + y) with y turned: the factors change places, the product stays
        if any(value not in factors and -value not in factors for value in moved):
            return 0
        value = sympy.Mul(*moved)  # factors that turn into one another
        kept = sympy.Mul(*(f for f in factors if self._turned(f, turned) not in (f, -f)))
        # turned twice each is what it was: those that change places do so with the sign of their product
        return sign if value == kept else 0

    def _turned(self, factor: Expr, turned: frozenset[Symbol]) -> Expr:
        key = (factor, turned & found(factor, Symbol))
        if key not in self._turns:
            self._turns[key] = put_in(factor, {v: -v for v in key[1]}, {})
        return self._turns[key]
