"""Functions of scalars that settle where the function has a kink, a jump or a root, or that the width multiplies.

A scalar x = n^(−1/2) R with R normal in the limit, of variance σ², enters as a power f(R) = |R|^p sgn(R)^s:

    n^(−1/2) f(R) = n^(−1/2) (β R + Z),   β = E f(R) R/σ²,   E Z = E f(R),
    Cov(Z, Z′) = E f f′ − E f E f′ − β β′ Cov(R, R′)

with Z not correlated with any average, so that products of it to order 1/n are those of one more average, which no
neuron is behind.  n^(−1) f(R) is its mean there, and smaller powers are nothing.  Where f is odd and no line, its mean
holds the third cumulant of R; it is read where turning the sign of a matrix turns that of x.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gamma, pi, sqrt
from typing import TYPE_CHECKING, Protocol

import numpy
import scipy  # loads its parts on first use
from sympy import Expr, Rational, S, Symbol

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import constant
from tplimits.numbers.expansion.jets import Jet, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tplimits.errors import NoLimitError
    from tplimits.numbers.expansion.averages import Averages

#: correlations and means below this, beside 1, are rounding
_NOTHING = 1e-10


class Series(Protocol):
    """Who expands functions: the statement is that of the regime that asks."""

    @property
    def argument(self) -> Symbol:
        """The variable of a function."""

    def at_zero(self, function: Expr, most: int) -> tuple[Mapping[tuple[Rational, bool], Expr], bool]:
        """A function of `argument` around 0: coefficients of |y|^p sgn(y)^s by (p, s); whether they tell it at 0."""

    def in_widths(self, expr: Expr, widths: Mapping[Symbol, float]) -> Mapping[int, Expr]:
        """An expression of order 1 beside its widths ρn, as coefficients of n^(−k/2) up to k = 2."""


@dataclass(frozen=True)
class _Power:
    """|R|^power, times sgn(R) if `sign`, of R with given slopes by averages."""

    power: float
    sign: bool
    slopes: Array
    deviation: float

    @property
    def mean(self) -> float:
        """E f(R)."""
        return 0.0 if self.sign else self.deviation**self.power * _absolute(self.power)

    @property
    def line(self) -> float:
        """β."""
        return self.deviation ** (self.power - 1) * _absolute(self.power + 1) if self.sign else 0.0


@dataclass
class Settled:
    """Such powers in one pass; `turned(entries)` tells whether a matrix turns the signs of these scalars."""

    averages: Averages
    _known: dict[int, _Power] = field(default_factory=dict)

    def power(self, x: Jet, p: Expr, sign: bool, order: Expr, refuse: Callable[[str], NoLimitError]) -> Jet:
        """n^order |R|^p sgn(R)^s for x = n^(−1/2) R; `refuse` makes an error of a reason."""
        if order < -1 or (order < -S.Half and sign):
            return number(0.0)  # a mean of an odd power is smaller by one order more
        if order > -S.Half:
            raise refuse("stays random in the limit, or grows: n to a power multiplies what does not vanish so fast")
        if self.averages.values_only:
            return number(0.0)
        made = self._law(x, float(p), sign, refuse)
        if order == -1:
            return Jet(constant(0.0), shift=constant(made.mean))
        if order != -S.Half:
            raise refuse(f"is of size n^({order}), between those that a layer of depth proportional to width can have")
        line = self.averages.scaled(x, made.line)
        return self.averages.sum(line, self._beside(made))

    def _law(self, x: Jet, power: float, sign: bool, refuse: Callable[[str], NoLimitError]) -> _Power:
        do = self.averages
        slopes, variance = self.fluctuation(x, refuse)
        beside = [do.covariance[j] @ slopes for j in self._known]
        # R must be centred normal: not off by n^(−1/2), nor correlated with a Z before, which is no normal variable
        if abs(do.by_root(x)) > _NOTHING * sqrt(variance) or any(abs(c) > _NOTHING for c in beside):
            raise refuse("has a kink where its argument is no normal variable around it")
        return _Power(power, sign, slopes, sqrt(variance))

    def fluctuation(self, x: Jet, refuse: Callable[[str], NoLimitError]) -> tuple[Array, float]:
        """R by averages, and its variance, which has to be there."""
        do = self.averages
        slopes = do.derivatives(x)
        variance = float(slopes @ do.covariance @ slopes)
        if variance <= _NOTHING**2:
            raise refuse("has a kink or jump at the limit of its argument, which does not fluctuate by 1/√n")
        return slopes, variance

    def _beside(self, made: _Power) -> Jet:
        """Z."""
        covariances = {j: self._covariance(made, other) for j, other in self._known.items()}
        jet = self.averages.beside("functions at their kinks", made.mean, covariances, self._covariance(made, made))
        (j,) = jet.slopes
        self._known[j] = made
        return jet

    def _covariance(self, a: _Power, b: _Power) -> float:
        """Cov(Z, Z′)."""
        count = len(a.slopes)
        # averages may have been added between the two
        other = numpy.concatenate([b.slopes, numpy.zeros(count - len(b.slopes))])
        both = float(a.slopes @ self.averages.covariance[:count, :count] @ other)
        scale = a.deviation * b.deviation
        product = a.deviation**a.power * b.deviation**b.power * _product(a, b, min(1.0, max(-1.0, both / scale)))
        return product - a.mean * b.mean - a.line * b.line * both


def _absolute(power: float) -> float:
    """E |g|^power of a standard normal."""
    return 2 ** (power / 2) * gamma((power + 1) / 2) / sqrt(pi)


def _product(a: _Power, b: _Power, rho: float) -> float:
    """E f(g) f′(g′) of standard normals with correlation ρ: a hypergeometric function of ρ², by Mehler's series."""
    if a.sign != b.sign:
        return 0.0
    p, q = a.power, b.power
    if a.sign:
        scale = 2 ** ((p + q) / 2 + 1) * gamma(p / 2 + 1) * gamma(q / 2 + 1) / pi
        return float(scale * rho * scipy.special.hyp2f1((1 - p) / 2, (1 - q) / 2, 1.5, rho**2))
    return float(_absolute(p) * _absolute(q) * scipy.special.hyp2f1(-p / 2, -q / 2, 0.5, rho**2))
