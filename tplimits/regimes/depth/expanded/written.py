"""Functions of a block as series, by the statements that the index algebra reads."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
from sympy import Expr, Rational, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.regimes.depth.algebra.expansions import ARGUMENT, at_point
from tplimits.regimes.depth.algebra.laurent import laurent
from tplimits.regimes.depth.algebra.products import EPS
from tplimits.regimes.depth.derivation.scalars.expected import mean_series

#: powers of ε = n^(−1/2) that means of a layer are wanted to
_ORDER = 2


class Written:
    """The series of functions of one block (`numbers.expansion.settled.Series`)."""

    argument = ARGUMENT

    def __init__(self) -> None:
        self._powers: dict[tuple[Expr, int], tuple[Mapping[tuple[Rational, bool], Expr], bool]] = {}
        self._widths: dict[Expr, Mapping[int, Expr]] = {}

    def at_zero(self, function: Expr, most: int) -> tuple[Mapping[tuple[Rational, bool], Expr], bool]:
        """Coefficients of |y|^p sgn(y)^s by (p, s); whether they tell the function at 0."""
        key = function, most
        if key not in self._powers:
            positive = {w: sympy.Dummy(w.name, positive=True) for w in function.free_symbols - {ARGUMENT}}
            back = {d: w for w, d in positive.items()}
            found = at_point(function.xreplace(positive), S.Zero, most)
            self._powers[key] = {k: c.xreplace(back) for k, c in found.terms.items()}, found.off == 0
        return self._powers[key]

    def in_widths(self, expr: Expr, widths: Mapping[Symbol, float]) -> Mapping[int, Expr]:
        """Coefficients of n^(−k/2)."""
        if expr not in self._widths:
            roots = {w: sympy.nsimplify(ratio, rational=True) * EPS**-2 for w, ratio in widths.items()}
            found = laurent(expr.xreplace(roots), EPS, _ORDER, mean_series)
            if found is None:
                raise NoLimitError(f"`{expr}` has no expansion in whole powers of n^(−1/2).")
            self._widths[expr] = dict(found.terms)
        return self._widths[expr]
