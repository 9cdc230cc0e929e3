"""The signs a continuous function of Gaussian variables takes, found by sampling it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.parts import longer

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

Sample = tuple[Mapping[Symbol, float], float]
#: nodes of an expression that is looked at
LONG = 200
#: what counts as a zero: digits of erf(1/x) − 1, which is e^(−1/x²), take ever longer as x goes to 0
_NOTHING = 1e-100
#: where other variables are looked at beside a zero
_PLACES = (0.7, -0.7, 2.1, -2.1)


def variables_in(expr: Expr, gaussians: Randomness) -> list[Symbol]:
    """The variables that stand in an expression themselves."""
    found = (s for s in expr.free_symbols if gaussians.is_random(s) and gaussians.definition(s) is None)
    return sorted(found, key=lambda s: s.name)


def without_names(expr: Expr, gaussians: Randomness) -> Expr:
    """The expression in variables alone, unless it is long."""
    while not longer(expr, LONG):
        names = {s: gaussians.definition(s) for s in expr.free_symbols if gaussians.is_random(s)}
        opened = {s: inner for s, inner in names.items() if inner is not None}
        if not opened:
            break
        expr = expr.xreplace(opened)
    return expr


def _affine_zero(expr: Expr, variables: Sequence[Symbol]) -> list[Sample]:
    """With open constants only an affine form is known to change sign (at a point not known)."""
    first = expr.diff(variables[0])
    if first.is_number and first != 0:
        return [(dict.fromkeys(variables, 0.0), -1.0), (dict.fromkeys(variables, 0.0), 1.0)]
    return []


# the same few expressions are asked about at every instruction of a program, and again beside the limits of its scalars
@lru_cache(maxsize=1024)
def _samples(expr: Expr, variables: tuple[Symbol, ...]) -> Sequence[Sample]:
    """Values at points drawn about the origin, the same ones each time."""
    if not variables:
        return []
    # constants in symbols have no number: a point cannot be tried, only a slope be read
    if expr.free_symbols - set(variables):
        return _affine_zero(expr, variables)
    generator = random.Random(0)
    result = []
    # near the origin and far out: x² − 9 is negative in most points, and positive only where few are drawn
    for scale in (0.5, 1.0, 2.0, 4.0):
        for _ in range(6):
            point = {v: generator.gauss(0, scale) for v in variables}
            value = _at(expr, point)
            if value.is_real and value.is_comparable:
                result.append((point, float(value)))
    return result


def _at(expr: Expr, point: Mapping[Symbol, float], digits: int = 15) -> Expr:
    try:
        return expr.xreplace({v: sympy.Float(x, digits) for v, x in point.items()}).evalf(digits)
    # no complex number is the smaller one, min(√x, y) at x < 0, and e^(e^(1/ε)) has too many digits
    except (ValueError, OverflowError, MemoryError):
        return sympy.nan


@lru_cache(maxsize=1024)
def _sign_change(expr: Expr, variables: tuple[Symbol, ...]) -> Mapping[Symbol, float] | None:
    samples = _samples(expr, variables)
    below = next((p for p, v in samples if v < 0), None)
    above = next((p for p, v in samples if v > 0), None)
    if below is None or above is None:
        return None
    # halvings until neighbours in double precision: nonzero_at looks at other factors at the zero itself
    for _ in range(60):
        middle = {v: (below[v] + above[v]) / 2 for v in below}
        if middle in (below, above):  # nothing lies between
            break
        value = _at(expr, middle, 30)
        if not value.is_comparable or abs(value) < _NOTHING:
            return middle
        if value < 0:
            below = middle
        else:
            above = middle
    return above


class Signs:
    """Signs and zeros of expressions in the variables of a derivation; a sign is reported only when seen."""

    def __init__(self, gaussians: Randomness) -> None:
        self.gaussians = gaussians

    def takes_negative(self, expr: Expr) -> bool:
        return any(value < 0 for _, value in _samples(expr, tuple(variables_in(expr, self.gaussians))))

    def sign_change(self, expr: Expr) -> Mapping[Symbol, float] | None:
        """A point near the zero set of a function that takes both signs."""
        return _sign_change(expr, tuple(variables_in(expr, self.gaussians)))

    def none_vanishes(self, factors: Sequence[Expr], point: Mapping[Symbol, float]) -> bool:
        """Whether factors stay away from zero at a pole, so that they cannot cancel it."""
        read = [(f, self.gaussians.of(f)) for f in factors]
        # relu(y)·relu(−y) is 0 although neither is
        shared = [f for f, its in read if any(g is not f and not its.isdisjoint(others) for g, others in read)]
        together = not shared or self._seen(sympy.Mul(*shared), point)
        return together and all(self.nonzero_at(f, point) for f in factors)

    def nonzero_at(self, expr: Expr, point: Mapping[Symbol, float]) -> bool:
        """Whether one factor stays away from zero there."""
        own = self.gaussians.of(expr)
        if any(self.gaussians.covariance(v, x) != 0 for v in own if v not in point for x in point):
            return False  # it may be a multiple of what vanishes there
        return own.isdisjoint(point) or self._seen(expr, point)

    def _seen(self, expr: Expr, point: Mapping[Symbol, float]) -> bool:
        """Whether one place on the zero set is found at which a factor is not 0: by continuity it is not near it."""
        opened, missing = without_names(expr, self.gaussians), self.gaussians.of(expr).difference(point)
        places = _PLACES if missing else _PLACES[:1]
        values = (_at(opened, {**point, **dict.fromkeys(missing, place)}) for place in places)
        return any(bool(value.is_comparable and abs(value) > 1e-6) for value in values)
