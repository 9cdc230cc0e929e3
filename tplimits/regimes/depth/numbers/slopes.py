"""How functions of Gaussian scalars grow: slopes a with |F(S)| ≤ P(S) Σ_a exp(a·S), P of polynomial growth.

E exp(a·S) f(S) = exp(a·C a/2) E f(S + C a): what grows as an exponential has its mean from where draws hardly come, and
draws that are shifted by C a find it.  A slope is an array (*axes, scalars): one vector for every place of the axes.

    of      |F| ≤ P Σ_a exp(a·S): sums take the slopes of their terms, products add those of their factors
    above   ±F ≤ max_u u·S + o(|S|), for exponents
    under   F ≥ c exp(b·S) for every b by itself, for divisors: e^(S₁)/Σ_k e^(S_k) is bounded, for it holds S₁

Slopes too many only cost draws; what is too steep is found by none.  So where a bound is not known there is none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import AxisSum, Entry, entries
from tplimits.program.nodes.properties import BOUNDED, LINEAR
from tplimits.regimes.depth.numbers.ranges import limits, never_negative

if TYPE_CHECKING:
    from tplimits.regimes.depth.numbers.fields import Field

#: slopes of one expression at one place
_MOST = 512
#: logarithms of factors that are 0 to rounding beside others: what a mask leaves bounds no sum from below
_MASKED = -20.0
#: powers that draws see badly
HIGH = 4
#: the value where a condition holds, or one of two
CHOOSING = (functions.maximum, functions.minimum, functions.where)
#: x where it is positive, and nothing that grows elsewhere
_RECTIFIED = (functions.relu, functions.softplus, functions.gelu)
#: the indices of an expression
Axes = tuple[Symbol, ...]


class UnknownGrowthError(Exception):
    """A function of which no slopes are known, or too many."""


@dataclass(frozen=True)
class Slopes:
    """Slopes of expressions; `field` has all scalars at 0, and `law` is their covariance, one after the other."""

    field: Field
    law: Array
    #: whether high powers have slopes, too, which they can do without
    powers: bool = True

    def of(self, expr: Expr, axes: Axes) -> list[Array]:
        """Those of |F|; UnknownGrowthError where none are known."""
        if not self._is_random(expr) or self._linear(expr, axes) is not None:
            return [self.flat(axes)]
        if isinstance(expr, sympy.Mul):
            return self._of_product(expr.args, axes)
        if isinstance(expr, AxisSum):
            return _distinct(self._members(self.of, expr, axes))
        if isinstance(expr, sympy.exp):
            return self._above(expr.args[0], axes)
        if isinstance(expr, (sympy.sinh, sympy.cosh)):
            return _distinct([*self._above(expr.args[0], axes), *self._above(expr.args[0], axes, -1)])
        if expr.is_Pow and expr.exp.is_number:
            if expr.exp.is_negative:
                return self._of_product([expr], axes)
            found = [float(expr.exp) * a for a in self.of(expr.base, axes)]
            return [*found, *self._of_power(expr, axes)] if self.powers and expr.exp >= HIGH else found
        if isinstance(expr, (*BOUNDED, sympy.asin, sympy.acos)):
            return [self.flat(axes)]
        if isinstance(expr, (sympy.Add, *CHOOSING, *LINEAR)):
            return _distinct([self.flat(axes), *(a for part in _chosen(expr) for a in self.of(part, axes))])
        if isinstance(expr, sympy.log):
            # of an exponential it is linear, of a pole it is integrable
            self.of(expr.args[0], axes)
            return [self.flat(axes)]
        raise UnknownGrowthError

    def _of_power(self, power: Expr, axes: Axes) -> list[Array]:
        """Of a power pᵏ of what is linear far out, √(k/2)/σ: the mean of its square is made at √(2k) deviations."""
        try:
            forms = _distinct([*self._above(power.base, axes), *self._above(power.base, axes, -1)])
        except UnknownGrowthError:
            return []
        sizes = [numpy.sqrt(numpy.einsum("...i,ij,...j->...", a, self.law, a))[..., None] for a in forms]
        rate = math.sqrt(float(power.exp) / 2)
        return [
            numpy.where(size > 0, rate / numpy.where(size > 0, size, 1.0), 0.0) * a
            for a, size in zip(forms, sizes, strict=True)
            if a.any()
        ]

    def _of_product(self, factors: Sequence[Expr], axes: Axes) -> list[Array]:
        """Of exponentials, whose exponents add, of what stands beside them, and of divisors."""
        exponents = [f.args[0] for f in factors if isinstance(f, sympy.exp)]
        divisors = [f for f in factors if f.is_Pow and f.exp.is_negative and self._is_random(f)]
        others = [f for f in factors if not isinstance(f, sympy.exp) and f not in divisors]
        found = self._above(sympy.Add(*exponents), axes)
        for other in others:
            found = _sums(found, self.of(other, axes))
        for divisor in divisors:
            found = self._divided(found, divisor, axes)
        return found

    def _divided(self, slopes: list[Array], divisor: sympy.Pow, axes: Axes) -> list[Array]:
        """Each slope less one of those under the divisor, the one that leaves the least."""
        power, under = -float(divisor.exp), self._under(divisor.base, axes)
        if not under:
            # a zero of a linear form is an integrable pole, or a removable one; of others nothing is known far out
            core = divisor.base.args[0] if isinstance(divisor.base, sympy.Abs) else divisor.base
            if self._linear(core, axes) is None:
                raise UnknownGrowthError
            return slopes
        found = []
        for a in slopes:
            left = numpy.stack(numpy.broadcast_arrays(*(a - power * b for b in under)))
            size = numpy.einsum("...i,ij,...j->...", left, self.law, left)
            # what is masked bounds nothing
            least = numpy.where(numpy.isnan(size), numpy.inf, size).argmin(axis=0)
            chosen = numpy.take_along_axis(left, least[None, ..., None], axis=0)[0]
            if numpy.isnan(chosen).any():
                raise UnknownGrowthError
            found.append(chosen)
        return _distinct(found)

    def _above(self, expr: Expr, axes: Axes, sign: int = 1) -> list[Array]:
        """Linear forms of which the largest bounds ±F from above, but for what grows less than they do."""
        if not self._is_random(expr):
            return [self.flat(axes)]
        if (slope := self._linear(expr, axes)) is not None:
            return [sign * slope]
        if isinstance(expr, sympy.Add):
            return _total(self._above(a, axes, sign) for a in expr.args)
        if isinstance(expr, AxisSum):
            return _total([a] for a in self._one_each(expr, axes, sign))
        low, high = self._limits(expr)
        if (high if sign > 0 else -low) < sympy.oo:
            return [self.flat(axes)]
        if isinstance(expr, sympy.Mul):
            return self._above_product(expr, axes, sign)
        if isinstance(expr, _RECTIFIED):
            return _distinct([self.flat(axes), *self._above(expr.args[0], axes)])
        if isinstance(expr, sympy.Abs):
            return _distinct([*self._above(expr.args[0], axes), *self._above(expr.args[0], axes, -1)])
        if isinstance(expr, CHOOSING):
            return _distinct([a for part in _chosen(expr) for a in self._above(part, axes, sign)])
        if (
            expr.is_Pow
            and expr.exp == sympy.Rational(1, 2)
            and sign > 0
            and expr.base.is_Add
            and never_negative(expr.base)
        ):
            # √(x + y) ≤ √x + √y
            return _total(self._above(sympy.sqrt(part), axes) for part in expr.base.args)
        if isinstance(expr, sympy.asinh):
            return [self.flat(axes)]
        if isinstance(expr, sympy.log) and sign > 0:
            return self.of(expr.args[0], axes)
        raise UnknownGrowthError

    def _above_product(self, product: sympy.Mul, axes: Axes, sign: int) -> list[Array]:
        known = [f for f in product.args if not self._is_random(f)]
        lies = {f: self._limits(f) for f in product.args if f not in known}
        grown = [f for f, (low, high) in lies.items() if high == sympy.oo or low == -sympy.oo]
        if len(grown) != 1:
            raise UnknownGrowthError
        up, down = (self._above(grown[0], axes, one) for one in (1, -1))
        front = sign * self.field.at(sympy.Mul(*known), axes)[0][..., None]
        if len(known) + 1 == len(product.args):
            return _sums([front.clip(0) * a for a in up], [(-front).clip(0) * a for a in down])
        most = abs(front) * float(sympy.Mul(*(max(abs(e) for e in lies[f]) for f in lies if f not in grown)))
        return _distinct([self.flat(axes), *(most * a for a in (*up, *down))])

    def _under(self, expr: Expr, axes: Axes) -> list[Array]:
        """Forms of which each bounds a positive function from below, NaN where it does not; none if none is known."""
        if not self._is_random(expr):
            return [numpy.where(self.field.at(expr, axes)[0] > 0, 0.0, numpy.nan)[..., None] + self.flat(axes)]
        if isinstance(expr, sympy.exp):
            slope = self._linear(expr.args[0], axes)
            if slope is None:
                return []
            offset = self.field.at(expr.args[0], axes)[0][..., None]
            return [numpy.where(offset > _MASKED, slope, numpy.nan)]
        if isinstance(expr, sympy.Add):
            return [a for part in expr.args for a in self._under(part, axes)] if never_negative(expr) else []
        if isinstance(expr, AxisSum):
            return self._members(self._under, expr, axes) if never_negative(expr) else []
        if isinstance(expr, sympy.Mul):
            parts = [self._under(f, axes) for f in expr.args]
            return _total(parts) if all(parts) else []
        if isinstance(expr, sympy.Pow) and expr.exp.is_positive and never_negative(expr.base):
            return [float(expr.exp) * a for a in self._under(expr.base, axes)]
        return [self.flat(axes)] if self._limits(expr)[0] > 0 else []

    def _linear(self, expr: Expr, axes: Axes) -> Array | None:
        """The slope of a sum of multiples of scalars and a constant; None for others."""
        if not self._is_random(expr):
            return self.flat(axes)
        if isinstance(expr, Entry):
            return self._entry(expr, axes)
        if isinstance(expr, sympy.Add):
            parts = [self._linear(a, axes) for a in expr.args]
            known = [p for p in parts if p is not None]
            return sum(known[1:], known[0]) if len(known) == len(parts) else None
        if isinstance(expr, AxisSum):
            inner = self._linear(expr.summand, (*axes, expr.bound))
            return None if inner is None else self._spread(inner, expr).sum(axis=-2)
        if isinstance(expr, sympy.Mul):
            moving = [f for f in expr.args if self._is_random(f)]
            slope = self._linear(moving[0], axes) if len(moving) == 1 else None
            front = sympy.Mul(*(f for f in expr.args if f not in moving))
            return None if slope is None else self.field.at(front, axes)[0][..., None] * slope
        return None

    def _entry(self, entry: Entry, axes: Axes) -> Array | None:
        """The unit vector of a scalar at each place; None where it is read at a look-up or at one member."""
        if not all(i in axes for i in entry.indices):
            return None
        units = replace(self.field, scalars=self._units)
        return numpy.moveaxis(units.at(entry, axes), 0, -1)

    @cached_property
    def _units(self) -> dict[int, Array]:
        """The unit vectors of all scalars in the place of draws."""
        shapes = {p: x.shape[1:] for p, x in self.field.scalars.items()}
        ends = numpy.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
        parts = numpy.split(numpy.eye(len(self.law)), ends, axis=1)
        return {p: x.reshape(-1, *shape) for (p, shape), x in zip(shapes.items(), parts, strict=True)}

    def _members(self, found: Callable[[Expr, Axes], list[Array]], whole: AxisSum, axes: Axes) -> list[Array]:
        """What is found of the summand, at each member of the axis."""
        inner = found(whole.summand, (*axes, whole.bound))
        spread = [self._spread(a, whole) for a in inner]
        return _few([a[..., k, :] for a in spread for k in range(a.shape[-2])])

    def _one_each(self, whole: AxisSum, axes: Axes, sign: int) -> list[Array]:
        """The only form above each summand of a sum; UnknownGrowthError where there are two."""
        inner = self._above(whole.summand, (*axes, whole.bound), sign)
        if len(inner) > 1:
            raise UnknownGrowthError
        return [self._spread(inner[0], whole).sum(axis=-2)]

    def _spread(self, slope: Array, whole: AxisSum) -> Array:
        return numpy.broadcast_to(slope, (*slope.shape[:-2], self.field.size(whole.axis), slope.shape[-1]))

    def _limits(self, expr: Expr) -> tuple[Expr, Expr]:
        return limits(expr, self.field.program.state)

    def _is_random(self, expr: Expr) -> bool:
        return any(e.source != self.field.program.state for e in entries(expr))

    def flat(self, axes: Axes) -> Array:
        """The slope of what is bounded."""
        return numpy.zeros((*(1,) * len(axes), len(self.law)))


def _chosen(expr: Expr) -> tuple[Expr, ...]:
    """What a function takes its values from: the condition of a choice is none of it."""
    return expr.args[1:] if isinstance(expr, functions.where) else expr.args


def _sums(first: list[Array], second: list[Array]) -> list[Array]:
    return _distinct([a + b for a, b in itertools.product(_few(first), _few(second))])


def _total(parts: Iterable[list[Array]]) -> list[Array]:
    first, *rest = parts
    for part in rest:
        first = _sums(first, part)
    return first


def _few(slopes: list[Array]) -> list[Array]:
    if len(slopes) > _MOST:
        raise UnknownGrowthError
    return slopes


def _distinct(slopes: list[Array]) -> list[Array]:
    """Without those that are equal."""
    kept: dict[tuple[tuple[int, ...], bytes], Array] = {}
    for a in slopes:
        kept.setdefault((a.shape, (a + 0.0).tobytes()), a)
    return _few([*kept.values()])
