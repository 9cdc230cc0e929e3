"""Observables of a derivation as expressions: their mean, and their variance where they stay random.

A scalar that contains fluctuation scalars S is a random variable in the limit: kets are conditional
on S, and S is Gaussian with covariances of its own.  Its mean and variance are means over S.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import EvaluationError
from tplimits.law.expectation import Expectations
from tplimits.law.gaussians import Gaussians, InitialSource, independent
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.shells import diverging_pole
from tplimits.law.hypotheses.tails import Growth
from tplimits.law.moments import NamedValue
from tplimits.law.observables import Observable, ScalarObservable

if TYPE_CHECKING:
    from tplimits.law.state import Derivation

_REPAIR = "Bound the function, or keep it away from its pole."


@dataclass(frozen=True)
class Target:
    """An observable's limit: `mean`, and `variance` (zero unless it stays random)."""

    label: str
    mean: Expr
    variance: Expr = S.Zero
    #: why it has no variance
    infinite: str = ""


class _Fluctuations(Gaussians):
    """Fluctuation scalars as the Gaussian variables of a second, outer mean."""

    def __init__(self, covariances: Mapping[tuple[Symbol, Symbol], Expr]) -> None:
        super().__init__()
        self._covariances = covariances
        for place, (a, _) in enumerate(covariances):
            self.source[a] = InitialSource(place, ())

    def covariance(self, a: Symbol, b: Symbol) -> Expr:
        return self._covariances[a, b]

    def family(self, symbol: Symbol) -> object:
        """They may all be correlated."""
        return None


def limit_of(state: Derivation, observable: Observable) -> Expr:
    """The limit of an observable; it may contain fluctuation scalars."""
    if isinstance(observable, ScalarObservable):
        return state.scalars[observable.key]
    return state.engine.inner(state.kets[observable.left].expr, state.kets[observable.right].expr)


def target(state: Derivation, observable: Observable) -> Target:
    """Mean and variance of an observable's limit."""
    value = limit_of(state, observable)
    symbols = {f.symbol for f in state.fluctuations.values()}
    if not symbols:
        return Target(observable.label, value)
    value = _opened(state, value, symbols, observable.label)
    if not value.free_symbols & symbols:
        return Target(observable.label, value)
    # the same moments: names inside the value keep their meaning, and new open means are integrated with the others
    outer = Expectations(_Fluctuations(state.covariances), state.engine.table, state.engine.moments)
    # integrals over several of them do not always show that they diverge
    if reason := _without_variance(value, outer.gaussians):
        return Target(observable.label, S.NaN, S.NaN, _told(observable, reason))
    mean = outer.mean(value)
    return Target(observable.label, mean, sympy.expand(outer.mean((value - mean) ** 2)))


def infinite_at(
    state: Derivation,
    observable: Observable,
    constants: Mapping[Symbol, Expr],
    read: Callable[[list[Expr]], list[Expr]],
) -> str:
    """Why a random limit has no variance at numbers of constants and of open means, which `read` gives; or ""."""
    symbols = {f.symbol for f in state.fluctuations.values()}
    value = _opened(state, limit_of(state, observable), symbols, observable.label)
    scalars = sorted(value.free_symbols & symbols, key=lambda s: s.name)
    pairs = {(a, b): state.covariances[a, b] for a in scalars for b in scalars}
    means = sorted(value.free_symbols & state.engine.moments.keys(), key=lambda s: s.name)
    # what has numbers already was judged with them
    if not scalars or (value.free_symbols <= symbols and all(e.is_number for e in pairs.values())):
        return ""
    # nor do variances matter for what is bounded by a polynomial, and has no pole
    growth = tail(value, independent(scalars))
    if growth.kind in (Growth.BOUNDED, Growth.POLYNOMIAL) and growth.power is S.Infinity:
        return ""
    numbers = read([*means, *pairs.values()])
    known = {**constants, **dict(zip(means, numbers, strict=False))}
    law = _Fluctuations(dict(zip(pairs, numbers[len(means) :], strict=True)))
    reason = _without_variance(value.xreplace(known), law)
    return reason and _told(observable, reason)


def _told(observable: Observable, reason: str) -> str:
    return f"`{observable.label}` is random in the limit and has no finite variance: {reason}. {_REPAIR}"


def _without_variance(value: Expr, gaussians: Gaussians) -> str:
    """Why a function of fluctuation scalars is certainly not square integrable; "" of others."""
    growth = tail(value, gaussians)
    if growth.kind is Growth.INFINITE:
        return growth.reason
    return "" if growth.established else diverging_pole(value, gaussians)


def covariance(state: Derivation, a: Observable, b: Observable) -> Expr:
    """Cov of two scalars that stay random; zero for deterministic ones."""
    symbols = {f.symbol for f in state.fluctuations.values()}
    left, right = (_opened(state, limit_of(state, o), symbols, o.label) for o in (a, b))
    if not left.free_symbols & symbols or not right.free_symbols & symbols:
        return S.Zero
    outer = Expectations(_Fluctuations(state.covariances), state.engine.table, state.engine.moments)
    return sympy.expand(outer.mean((left - outer.mean(left)) * (right - outer.mean(right))))


def _opened(state: Derivation, expr: Expr, symbols: set[Symbol], label: str) -> Expr:
    """The expression with names that hide a fluctuation scalar written out."""
    engine = state.engine
    hidden: dict[Symbol, Expr] = {}
    for name in engine.needed(expr):
        moment = engine.moments[name]
        if isinstance(moment, NamedValue):
            written = moment.value.xreplace(hidden)
            if written.free_symbols & symbols:
                hidden[name] = written
        elif any(s in symbols or s in hidden for e in engine.parts(moment) for s in e.free_symbols):
            raise EvaluationError(
                f"`{label}` depends on a mean that is itself random (it contains a fluctuation scalar under a mean "
                "without closed form); its law is not computed. Use an activation with a closed form, or look at "
                "finite widths."
            )
    return expr.xreplace(hidden)
