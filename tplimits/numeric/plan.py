"""From a derivation to numbers: the moments in the order they can be computed, then the targets.

A Plan is the part of a derivation that some targets need, lowered once: closed values, open means as
integrands over linear forms, Stein systems.  It is run at two resolutions; their difference is the
error that is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError
from tplimits.limit.expectation import Expectations
from tplimits.limit.moments import BoxMean, NamedValue, OpenMoment, covariances
from tplimits.numeric.cut_grid import TooManyNodes
from tplimits.numeric.forms import Integrand, lower
from tplimits.numeric.number import Number
from tplimits.numeric.quadrature import Quadrature

#: digits carried for closed values, so that cancellation in a formula does not show
_DIGITS = 40
#: two resolutions that agree to this relative accuracy end the refinement
_ENOUGH = 1e-12
#: singular values of a Stein system below this relative size count as zero
SINGULAR = 1e-6
_LEVELS = 5


@dataclass(frozen=True)
class Closed:
    """symbol = a closed expression in earlier symbols."""

    symbol: Symbol
    value: Expr


@dataclass(frozen=True)
class Mean:
    """symbol = E[integrand]; `covariances` lists the pairs (a, b, expression) it needs."""

    symbol: Symbol
    integrand: Integrand
    covariances: tuple[tuple[Symbol, Symbol, Expr], ...]


@dataclass(frozen=True)
class Stein:
    """symbol = component `place` of pinv(gram) · products."""

    symbol: Symbol
    place: int
    gram: tuple[tuple[Expr, ...], ...]
    products: tuple[Expr, ...]


PlanStep = Closed | Mean | Stein


@dataclass(frozen=True)
class Plan:
    """Steps in order, and the targets as expressions in their symbols."""

    steps: tuple[PlanStep, ...]
    targets: tuple[tuple[str, Expr], ...]

    @property
    def closed(self) -> bool:
        """Whether no integral is needed."""
        return all(isinstance(s, Closed) for s in self.steps)

    def __str__(self) -> str:
        lines = []
        for s in self.steps:
            if isinstance(s, Closed):
                lines.append(f"{s.symbol} = {s.value}")
            elif isinstance(s, Mean):
                factors = [str(s.integrand.body), *(f"{v}^{p}" for v, p in s.integrand.polynomial)]
                lines.append(f"{s.symbol} = E[{' · '.join(factors)}] over {len(s.integrand.forms)} forms")
            else:
                lines.append(f"{s.symbol} = component {s.place} of a {len(s.gram)}×{len(s.gram)} Stein system")
        return "\n".join([*lines, *(f"{name} = {value}" for name, value in self.targets)])


def plan(engine: Expectations, targets: Mapping[str, Expr]) -> Plan:
    """What the targets need, in order."""
    order: dict[Symbol, None] = {}
    for expr in targets.values():
        order.update(dict.fromkeys(engine.needed(expr)))
    return Plan(tuple(_step(engine, s) for s in order), tuple(targets.items()))


def _step(engine: Expectations, symbol: Symbol) -> PlanStep:
    moment = engine.moments[symbol]
    if isinstance(moment, NamedValue):
        return Closed(symbol, moment.value)
    if isinstance(moment, OpenMoment):
        bound = {v for node in moment.integrand.atoms(BoxMean) for v in node.boxed}
        pairs = covariances(moment)
        own = [v for v in dict.fromkeys(a for a, _, _ in pairs) if v not in bound]
        return Mean(symbol, lower(moment.integrand, own, moment.gaussians), tuple(pairs))
    return Stein(symbol, moment.place, moment.gram, moment.products)


def exact(plan: Plan, constants: Mapping[Symbol, Expr]) -> dict[str, Number]:
    """Targets of a closed plan in high precision, rounded to doubles."""
    known: dict[Symbol, Expr] = {s: sympy.sympify(v) for s, v in constants.items()}
    for step in plan.steps:
        assert isinstance(step, Closed)
        known[step.symbol] = _high_precision(step.value, known)
    result = {}
    for name, expr in plan.targets:
        value = float(_high_precision(expr, known))
        result[name] = Number(value, abs(value) * 2.0**-52, "exact")
    return result


def _high_precision(expr: Expr, known: Mapping[Symbol, Expr], noise: float = 1e-20) -> Expr:
    """The value of a closed expression; an imaginary part within the noise of its arguments is dropped.

    A correlation of integrated moments can pass 1 by rounding where a Gram is singular.
    """
    value = expr.xreplace(dict(known)).evalf(_DIGITS)
    if value.free_symbols:
        names = ", ".join(sorted(s.name for s in value.free_symbols))
        raise EvaluationError(f"no value for {names}: give it by name, as in evaluate({names.split(', ')[0]}=1.0).")
    if not value.is_real:
        real, imaginary = value.as_real_imag()
        if abs(imaginary) > noise * (1 + abs(real)):
            raise EvaluationError(f"`{expr}` is not a real number at these constants.")
        value = real
    if not value.is_finite:
        raise EvaluationError(f"`{expr}` is not finite at these constants.")
    return value


class _Run:
    """One pass over the steps at one resolution."""

    def __init__(self, plan: Plan, constants: Mapping[Symbol, float], level: int) -> None:
        self.plan, self.level = plan, level
        self.known: dict[Symbol, float] = dict(constants)
        self.singular = False

    def number(self, expr: Expr) -> float:
        precise = {
            s: sympy.Float(v, 17) if not isinstance(v, Expr) else v
            for s, v in self.known.items()
            if s in expr.free_symbols
        }
        return float(_high_precision(expr, precise, noise=SINGULAR))

    def run(self) -> dict[str, float]:
        for step in self.plan.steps:
            if isinstance(step, Closed):
                self.known[step.symbol] = self.number(step.value)
            elif isinstance(step, Mean):
                self.known[step.symbol] = self._mean(step)
            else:
                self.known[step.symbol] = self._stein(step)
        return {name: self.number(expr) for name, expr in self.plan.targets}

    def _mean(self, step: Mean) -> float:
        covariance = {(a, b): self.number(c) for a, b, c in step.covariances}
        value = Quadrature(covariance, self.known, self.level).mean(step.integrand)
        if not numpy.isfinite(value):
            raise EvaluationError(f"moment not established: the quadrature of {step.integrand.body} is not finite.")
        return value

    def _stein(self, step: Stein) -> float:
        gram = numpy.array([[self.number(c) for c in row] for row in step.gram])
        products = numpy.array([self.number(c) for c in step.products])
        singular_values = numpy.linalg.svd(gram, compute_uv=False)
        self.singular |= bool(singular_values[-1] < SINGULAR * singular_values[0])
        return float((numpy.linalg.pinv(gram, rcond=SINGULAR) @ products)[step.place])


def quadrature(plan: Plan, constants: Mapping[Symbol, float]) -> dict[str, Number]:
    """Targets with the difference of the two finest resolutions as error.

    Raises TooManyNodes when some integral has too many dimensions even at coarse resolution.
    """
    previous = _Run(plan, constants, 0).run()
    errors = dict.fromkeys(previous, numpy.inf)
    for level in range(1, _LEVELS):
        try:
            run = _Run(plan, constants, level)
            current = run.run()
        except TooManyNodes:
            if level == 1:
                raise
            break
        errors = {k: max(abs(current[k] - previous[k]), 4e-16 * abs(current[k])) for k in current}
        previous = current
        if all(errors[k] <= _ENOUGH * max(1.0, abs(current[k])) for k in current):
            break
    method = "quadrature"
    return {k: Number(v, float(errors[k]), method) for k, v in previous.items()}
