"""From a derivation to steps: the moments in the order they can be computed, then the targets.

An EvaluationPlan is the part of a derivation that some targets need, lowered once: closed values, open means as
integrands over linear forms, Stein systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, Symbol

from tplimits.law.means import BoxMean
from tplimits.law.moments import NamedValue, OpenMoment, covariances
from tplimits.numbers.coefficients import coefficients, parts_without
from tplimits.numbers.forms import Integrand, lower
from tplimits.numbers.near_zero import continued, of_differences

if TYPE_CHECKING:
    from tplimits.law.expectation import Expectations


@dataclass(frozen=True)
class Closed:
    """symbol = a closed expression in earlier symbols."""

    symbol: Symbol
    value: Expr

    def reads(self) -> set[Symbol]:
        """The symbols it is computed from."""
        return self.value.free_symbols


@dataclass(frozen=True)
class Mean:
    """symbol = E[integrand]; `covariances` lists the pairs (a, b, expression) it needs."""

    symbol: Symbol
    integrand: Integrand
    covariances: tuple[tuple[Symbol, Symbol, Expr], ...]

    def reads(self) -> set[Symbol]:
        """The symbols it is computed from, those inside named long factors included."""
        return self.integrand.reads().union(*(c.free_symbols for _, _, c in self.covariances))

    def coefficients(self) -> list[Expr]:
        """The numbers that it is made of, as expressions in those symbols."""
        return [*coefficients(self.integrand), *(c for _, _, c in self.covariances if c.free_symbols)]


@dataclass(frozen=True)
class Constant:
    """symbol = E[integrand] over one standard normal that nothing else reads (tp.expect)."""

    symbol: Symbol
    integrand: Expr
    variable: Symbol

    def reads(self) -> set[Symbol]:
        """The symbols it is computed from."""
        return self.integrand.free_symbols - {self.variable}

    def coefficients(self) -> list[Expr]:
        """The numbers that it is made of, as expressions in those symbols."""
        return [c for c in parts_without(self.integrand, frozenset({self.variable})) if c.free_symbols]


@dataclass(frozen=True)
class Stein:
    """symbol = component `place` of pinv(gram) · products."""

    symbol: Symbol
    place: int
    gram: tuple[tuple[Expr, ...], ...]
    products: tuple[Expr, ...]

    def reads(self) -> set[Symbol]:
        """The symbols it is computed from."""
        return set().union(*(c.free_symbols for row in (*self.gram, self.products) for c in row))


PlanStep = Closed | Mean | Constant | Stein


@dataclass(frozen=True)
class EvaluationPlan:
    """Steps in order, and the targets as expressions in their symbols."""

    steps: tuple[PlanStep, ...]
    targets: tuple[tuple[str, Expr], ...]

    @property
    def closed(self) -> bool:
        """Whether no integral is needed."""
        return all(isinstance(s, Closed) for s in self.steps)


def plan(engine: Expectations, targets: Mapping[str, Expr]) -> EvaluationPlan:
    """What the targets need, in order."""
    lowered: dict[Symbol, PlanStep] = {}
    order: dict[Symbol, PlanStep] = {}

    def visit(read: set[Symbol]) -> None:
        for symbol in sorted((s for s in read if s in engine.moments and s not in order), key=lambda s: s.name):
            step = lowered.setdefault(symbol, _step(engine, symbol))
            visit(step.reads())
            order[symbol] = step

    for expr in targets.values():
        visit(expr.free_symbols)
    return EvaluationPlan(tuple(order.values()), tuple(targets.items()))


def _step(engine: Expectations, symbol: Symbol) -> PlanStep:
    moment = engine.moments[symbol]
    if isinstance(moment, NamedValue):
        return Closed(symbol, moment.value)
    if isinstance(moment, OpenMoment):
        variables = moment.gaussians.everywhere(moment.integrand)
        if len(variables) == 1 and all(map(moment.gaussians.is_constant, variables)):
            return Constant(symbol, moment.integrand, *variables)
        bound = {v for node in moment.integrand.atoms(BoxMean) for v in node.boxed}
        pairs = covariances(moment)
        # boxed variables are integrated inside, by an integrand of their own
        own = [v for v in dict.fromkeys(a for a, _, _ in pairs) if v not in bound]
        integrand = of_differences(continued(moment.integrand, moment.gaussians), own)
        return Mean(symbol, lower(integrand, own, moment.gaussians), tuple(pairs))
    return Stein(symbol, moment.place, moment.gram, moment.products)
