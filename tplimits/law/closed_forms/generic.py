"""The same closed form for the same shape: covariances and coefficients as symbols while the rules work.

Layers of a network ask for one integral again and again, with other numbers.  The rules are run once,
on symbols c1, c2, … in place of every covariance, slope and constant that is no short number; the result is
remembered and the values are put back.  Equal values share a symbol and short numbers stay, so what the
rules decide by comparing is decided alike.  What they cannot see in symbols is a singular law: a
regular determinant is asked for first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import sympy
from sympy import Expr, Symbol

from tplimits.law.closed_forms.integrand import Affine, Integrand, Law, NotClosed, tidy
from tplimits.program.parts import longer

_MOST_VARIABLES = 3
#: a closed form longer than this says less than the integral
_MOST_NODES = 600
#: a number with more nodes than this is a value like any other: nothing is read off it
_MOST_IN_NUMBERS = 12


class Shape:
    """An integrand and its law with symbols for values, and the values."""

    def __init__(self, law: Law, integrand: Integrand) -> None:
        self._symbols: dict[Expr, Symbol] = {}
        self.law = Law(tuple(tuple(self._named(c) for c in row) for row in law.covariance))
        self.integrand = replace(
            integrand,
            polynomial=tuple((e, self._named(c)) for e, c in integrand.polynomial),
            steps=tuple(self._form(f) for f in integrand.steps),
            deltas=tuple(self._form(f) for f in integrand.deltas),
            exponents=tuple(
                (
                    tuple(tuple(self._named(x) for x in row) for row in a),
                    tuple(self._named(x) for x in b),
                    self._named(c),
                )
                for a, b, c in integrand.exponents
            ),
            waves=tuple((s, self._form(f)) for s, f in integrand.waves),
            errors=tuple(self._form(f) for f in integrand.errors),
        )

    @property
    def has_symbols(self) -> bool:
        """Whether anything was replaced."""
        return bool(self._symbols)

    def restored(self, value: Expr) -> Expr:
        """The values put back."""
        return value.xreplace({symbol: expr for expr, symbol in self._symbols.items()})

    def _form(self, form: Affine) -> Affine:
        return Affine(tuple(self._named(a) for a in form.slope), self._named(form.constant))

    def _named(self, expr: Expr) -> Expr:
        # a short number stays: 0, 1 or ½ is what rules compare with
        if expr.is_number and not longer(expr, _MOST_IN_NUMBERS):
            return expr
        if expr not in self._symbols:
            # signs go with the symbol: rules decide by them which way a step turns
            flags = {flag: True for flag in ("positive", "negative", "nonnegative") if getattr(expr, f"is_{flag}")}
            self._symbols[expr] = Symbol(f"c{len(self._symbols) + 1}", **(flags or {"real": True}))
        return self._symbols[expr]


def is_regular(law: Law) -> bool:
    """Whether the law certainly has a density, by its determinant; NotClosed when that is too long to judge."""
    if law.size > _MOST_VARIABLES:
        return False
    return bool(tidy(_determinant(law.covariance)) != 0)


def _determinant(rows: Sequence[Sequence[Expr]]) -> Expr:
    """A determinant without divisions; of one or two variables, as most laws are, without a matrix either."""
    # expanded by hand: matrices of SymPy cost more than the rules that follow
    if len(rows) == 1:
        return rows[0][0]
    if len(rows) == 2:
        return rows[0][0] * rows[1][1] - rows[0][1] * rows[1][0]
    return sympy.Matrix(rows).det(method="berkowitz")


#: the mean of an integrand under a law, and the names of the rows used
Closing = Callable[[Law, Integrand], tuple[Expr, tuple[str, ...]]]


def closed_by_shape(closing: Closing, law: Law, integrand: Integrand) -> tuple[Expr, tuple[str, ...]]:
    """`closing` applied to the shape where it may be, else to the values themselves."""
    shape = Shape(law, integrand)
    # in symbols a singular law looks regular, and a division by its zero determinant would go unseen
    if not shape.has_symbols or not is_regular(law):
        return closing(law, integrand)
    value, used = closing(shape.law, shape.integrand)
    restored = shape.restored(value)
    # of the values, not the shape: these may be long expressions themselves
    if longer(restored, _MOST_NODES):
        raise NotClosed
    return _tidy_if_short(restored), used


def _tidy_if_short(expr: Expr) -> Expr:
    try:
        return tidy(expr)
    except NotClosed:
        return expr
