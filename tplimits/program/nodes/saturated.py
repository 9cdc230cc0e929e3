"""Sums that cancel where their functions saturate, but for a small number, with all digits of what is left.

    tanh(a) − 1 + ε = ε − 2/(1 + e^(2a)),   erf(a) − erf(b) + ε = ε − erfc(a) + erfc(b)   where a > 0

In double precision tanh(a) − 1 + 10⁻²⁰ is 0 for all a > 19, and its sign changes at a = 23.4.  What a function lacks at
its end is another function, which doubles hold to all digits however small it is.  A sum that may cancel at several
ends, as that of error functions does on either side, is written for each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import mpmath
import sympy
from sympy import Expr, S

from tplimits.program.nodes import functions
from tplimits.program.nodes.properties import FADING
from tplimits.program.parts import found, holds, rebuilt

#: a sum of which less than this part is left has lost digits: where its sign changes is known to fewer
_LOST = 1e-3
#: what is left is no double below this; digits of where it is 0
_LEAST, _DIGITS = sympy.Float("1e-300"), 40
#: each of so many functions has two ends
_MOST = 6


class End(NamedTuple):
    """A function far out on one side: its value there, what it is beyond that, and where that is so much."""

    value: Expr
    rest: Expr
    place: Callable[[mpmath.mpf], mpmath.mpf]

    def times(self, factor: Expr) -> End:
        """The end of a multiple."""
        return End(factor * self.value, factor * self.rest, lambda r: self.place(r / _float(factor)))


def _float(number: Expr) -> mpmath.mpf:
    return mpmath.mpf(number.evalf(mpmath.mp.dps))


def _of_exponential(a: Expr, value: Expr, height: int, slope: int) -> End:
    """h/(1 + e^(−s a)) above a value for s > 0, and below it: rules would write a sigmoid as tanh again."""
    sign = 1 if slope > 0 else -1
    return End(value, sign * height / (1 + sympy.exp(-slope * a)), lambda r: -mpmath.log(sign * height / r - 1) / slope)


def _of_error_function(a: Expr, value: Expr, sign: int, side: int) -> End:
    return End(value, sign * sympy.erfc(side * a), lambda r: side * mpmath.erfinv(1 - sign * r))


#: by head, far to the left and far to the right
_ENDS: dict[type[Expr], Callable[[Expr], tuple[End, End]]] = {
    sympy.tanh: lambda a: (_of_exponential(a, S.NegativeOne, 2, 2), _of_exponential(a, S.One, 2, -2)),
    functions.sigmoid: lambda a: (_of_exponential(a, S.Zero, 1, 1), _of_exponential(a, S.One, 1, -1)),
    sympy.erf: lambda a: (_of_error_function(a, S.NegativeOne, 1, -1), _of_error_function(a, S.One, -1, 1)),
    sympy.erfc: lambda a: (_of_error_function(a, S(2), -1, -1), _of_error_function(a, S.Zero, 1, 1)),
}
#: the heads that such a sum holds
SATURATED = tuple(_ENDS)
#: which end of each function
Sides = tuple[int, ...]


@dataclass(frozen=True)
class Total:
    """A number, what may be small, and functions k f(a) by their ends; `places` are the a."""

    number: Expr
    small: Expr
    places: tuple[Expr, ...]
    ends: tuple[tuple[End, End], ...]

    def written(self, sides: Sides) -> Expr:
        """The same sum by what its functions lack at these ends."""
        ends = [both[k] for both, k in zip(self.ends, sides, strict=True)]
        return sympy.Add(self.left(sides), *(e.rest for e in ends), self.small)

    def left(self, sides: Sides) -> Expr:
        """The number at these ends."""
        return self.number + sympy.Add(*(both[k].value for both, k in zip(self.ends, sides, strict=True)))

    @cached_property
    def cancelling(self) -> list[Sides]:
        """The ends at which fewer digits are left than the terms have."""
        largest = max(abs(n) for n in (self.number, *(end.value for both in self.ends for end in both)))
        every = itertools.product((0, 1), repeat=len(self.ends))
        return [sides for sides in every if abs(self.left(sides)) < _LOST * largest]

    def crossing(self) -> Expr | None:
        """The argument at which a sum of one function is zero, at its end; None where that is further than doubles."""
        (both,), (sides,) = self.ends, self.cancelling
        left = self.left(sides)
        if abs(left) < _LEAST:
            return None
        # an error function near its end is inverted from as many digits as it has there
        with mpmath.workdps(_DIGITS - int(sympy.log(abs(left), 10).evalf(5))):
            return sympy.Rational(float(both[sides[0]].place(-_float(left))))


def taken_apart(total: Expr) -> Total | None:
    """A sum taken apart; None where it holds what neither saturates nor may be small."""
    number, small, places, ends = S.Zero, S.Zero, [], []
    for term in sympy.Add.make_args(total):
        factors = sympy.Mul.make_args(term)
        factor, rest = (sympy.Mul(*(f for f in factors if f.is_number is which)) for which in (True, False))
        if rest == 1:
            number += term
        elif isinstance(rest, SATURATED):
            left, right = _ENDS[type(rest)](rest.args[0])
            places.append(rest.args[0])
            ends.append((left.times(factor), right.times(factor)))
        elif isinstance(rest, FADING) or abs(factor) < _LOST:
            small += term
        else:
            return None
    known = 0 < len(ends) <= _MOST and number.is_comparable
    return Total(number, small, tuple(places), tuple(ends)) if known else None


def with_digits(expr: Expr) -> Expr:
    """An expression whose sums keep their digits, where one form does it everywhere; the same function.

    >>> x = sympy.Symbol("x", real=True)
    >>> with_digits(2 - sympy.erf(x) - sympy.erf(3 * x) - sympy.exp(-80))
    erfc(x) + erfc(3*x) - exp(-80)
    """
    if not holds(expr, *SATURATED) or not holds(expr, sympy.Add):
        return expr
    expr = rebuilt(expr, [with_digits(a) for a in expr.args])
    total = taken_apart(expr) if expr.is_Add else None
    if total is None or len(total.cancelling) != 1:
        return expr
    (sides,) = total.cancelling
    # a sum that cancels to nothing is as good as its terms, and its sign is told by algebra
    return expr if total.left(sides) == 0 and total.small == 0 else total.written(sides)


def by_sides(jump: Expr) -> Expr:
    """A jump by cases where a sum in its argument may cancel on either side of functions."""
    for expr in found(jump.args[0], sympy.Add) if holds(jump.args[0], *SATURATED) else ():
        total = taken_apart(expr)
        # 0 on one side is 0 everywhere, where networks have the sign of rounding: for the hypothesis on jumps
        if total is not None and len(total.cancelling) > 1 and all(total.written(s) != 0 for s in total.cancelling):
            return _cases(jump, expr, total, total.cancelling)
    return jump


def _cases(jump: Expr, expr: Expr, total: Total, left: Sequence[Sides]) -> Expr:
    """One of several forms of a sum by the sides of the functions that they differ in."""
    if len(left) == 1:
        return jump.xreplace({expr: total.written(left[0])})
    k = next(k for k, sides in enumerate(zip(*left, strict=True)) if len(set(sides)) > 1)
    below, above = (_cases(jump, expr, total, [s for s in left if s[k] == side]) for side in (0, 1))
    return functions.where(total.places[k], above, below)
