"""Numbers from a plan: exactly, or by passes over its steps at increasing resolutions.

The error of a quadrature is the difference of its two finest passes, or what the known errors of single means do
to the closed expressions behind them, whichever is larger.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError
from tplimits.numbers.budget import Budget, TooManyNodes
from tplimits.numbers.number import Number
from tplimits.numbers.plan import Closed, Constant, EvaluationPlan, Mean, Stein
from tplimits.numbers.precision import (
    SPREADS,
    Unsettled,
    check_settled,
    double,
    high_precision,
    is_steady,
    no_settled_value,
    share_of_error,
)
from tplimits.numbers.quadrature import Quadrature
from tplimits.program.nodes.evaluate import as_number, constant_mean, evaluate
from tplimits.program.parts import symbols

if TYPE_CHECKING:
    from tplimits.numbers.frame import Array

#: two resolutions that agree to this relative accuracy end the refinement
_ENOUGH = 1e-12
#: imaginary parts below this, relative, are errors of integrals
SINGULAR = 1e-6
#: eigenvalues of a Gram below this, relative, are zero: a direction of relative length 1e-5
_DEPENDENT = 1e-10
_LEVELS = 5
#: differences of passes that fall by less are those of kinks; and a share of what is expected that no chance explains
_KINKED, _NO_CHANCE = 0.1, 1e-4
#: an error above this share of a number leaves it few digits; it is rounding where rounding makes this share of it
_LOST, _MOSTLY = 1e-3, 0.1
#: relative rounding of a sum over nodes, at most, and of a double that stands for a moment
_ROUNDED = 1e-14
_ROUNDING = 2.0**-52


@dataclass
class _Pass:
    """One pass over the steps at one resolution."""

    plan: EvaluationPlan
    constants: Mapping[Symbol, float]
    level: int
    budget: Budget
    known: dict[Symbol, float] = field(default_factory=dict)
    errors: dict[Symbol, float] = field(default_factory=dict)
    targets: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Every step, then the targets."""
        self.known |= self.constants
        for step in self.plan.steps:
            if isinstance(step, (Mean, Constant)):
                self.known[step.symbol], self.errors[step.symbol] = self._mean(step, self.known)
            else:
                self.known[step.symbol] = _value(step, self.known)
        self.targets = {name: _number(expr, self.known) for name, expr in self.plan.targets}

    def _mean(self, step: Mean | Constant, known: Mapping[Symbol, float]) -> tuple[float, float]:
        if isinstance(step, Constant):
            written = step.integrand.xreplace({s: as_number(known[s]) for s in step.reads()})
            constant = constant_mean(written, step.variable)
            return constant.value, constant.error
        covariance = {(a, b): _number(c, known) for a, b, c in step.covariances}
        found = Quadrature(covariance, known, self.level, self.budget).mean(step.integrand)
        if not numpy.isfinite(found.value):
            raise EvaluationError(f"moment not established: the quadrature of {step.integrand.body} is not finite.")
        return found.value, found.error

    def moved(self, pattern: int, by_rounding: bool = False) -> tuple[dict[Symbol, float], dict[str, float]]:
        """All values and the targets after every mean has been moved by its error, up or down by the pattern.

        That below 0 is the contrary of the other.  `by_rounding`: by no more than sums in doubles are wrong by.
        """
        known = dict(self.constants)
        for place, step in enumerate(self.plan.steps):
            if isinstance(step, (Mean, Constant)):
                value = self._beside_zeros(step, known)
                error = max(self.errors[step.symbol], _ROUNDING * abs(value))
                error = min(error, _ROUNDED * abs(value)) if by_rounding else error
                known[step.symbol] = value + share_of_error(place, pattern) * error
            else:
                # differences of closed values have the rounding of doubles, and no sign of their own within it
                value = _value(step, known)
                known[step.symbol] = value + share_of_error(place, pattern) * _ROUNDING * abs(value)
        return known, {name: _number(expr, known) for name, expr in self.plan.targets}

    def _beside_zeros(self, step: Mean | Constant, known: Mapping[Symbol, float]) -> float:
        """A mean, taken again where a number in it is 0 within its error; Unsettled where that decides about it."""
        value = self.known[step.symbol]
        zero = _zero_within_error(step, self.known, known)
        if zero is None:
            return value
        moved, _ = self._mean(step, known)
        size = max(abs(known[s] - self.known[s]) for s in zero.free_symbols)
        if not is_steady(value, moved, size):
            raise Unsettled(no_settled_value(value, moved, "a mean"), zero)
        return moved


def _zero_within_error(
    step: Mean | Constant, here: Mapping[Symbol, float], moved: Mapping[Symbol, float]
) -> Expr | None:
    """A number in a mean, or a covariance, that moves by as much as it is; None where there is none."""
    for expr in step.coefficients():
        if not all(here[s] == moved[s] for s in symbols(expr)):
            with numpy.errstate(invalid="ignore"):
                value, other = (float(evaluate(expr, dict(known))) for known in (here, moved))
            if not abs(value) > SPREADS * abs(other - value):  # nor is it a number: the root of less than 0
                return expr
    return None


def _number(expr: Expr, known: Mapping[Symbol, float]) -> float:
    if expr.is_Symbol and expr in known:
        return float(known[expr])
    # a double is exact at 17 digits; the arithmetic behind it has more
    precise = {s: sympy.Float(known[s], 17) for s in symbols(expr) if s in known}
    return double(high_precision(expr, precise, noise=SINGULAR), expr)


def _value(step: Closed | Stein, known: Mapping[Symbol, float]) -> float:
    if isinstance(step, Closed):
        return _number(step.value, known)
    products = numpy.array([_number(c, known) for c in step.products])
    return float((numpy.linalg.pinv(_gram(step, known), rcond=_DEPENDENT) @ products)[step.place])


def _gram(step: Stein, known: Mapping[Symbol, float]) -> Array:
    return numpy.array([[_number(c, known) for c in row] for row in step.gram])


def _check_ranks(last: _Pass, earlier: _Pass) -> None:
    """EvaluationError where two passes do not tell whether a Gram of images is singular."""
    for step in last.plan.steps:
        if isinstance(step, Stein):
            gram = _gram(step, last.known)
            error = float(abs(gram - _gram(step, earlier.known)).max())
            eigenvalues = numpy.linalg.eigvalsh(gram)
            # of those that were kept: one that the error may move to 0 is a direction that may not exist
            least = eigenvalues[eigenvalues > _DEPENDENT * eigenvalues[-1]].min(initial=numpy.inf)
            if least < len(gram) * error:
                raise EvaluationError(
                    f"the rank of a Gram of {len(gram)} images is not settled: its eigenvalue {least:.2g} has the "
                    f"error {len(gram) * error:.1g}. Keep the vectors that one matrix is applied to apart, or use "
                    "method='particles'."
                )


def quadrature(plan: EvaluationPlan, constants: Mapping[Symbol, float], budget: Budget) -> dict[str, Number]:
    """Targets by quadrature, refined until two passes agree or the budget is spent.

    Raises TooManyNodes when some integral has too many dimensions even at coarse resolution, Unsettled when a closed
    expression has no value at the integrated moments.
    """
    done: list[_Pass] = []
    errors: dict[str, float] = {}
    for level in range(_LEVELS):
        one = _Pass(plan, constants, level, budget)
        try:
            one.run()
        except TooManyNodes:
            # two passes at least: one alone has no error
            if level < 2:
                raise
            break
        done.append(one)
        if level:
            errors = {k: _disagreement([p.targets[k] for p in done]) for k in one.targets}
            if all(errors[k] <= _ENOUGH * max(1.0, abs(v)) for k, v in one.targets.items()):
                break
    _check_ranks(done[-1], done[-2])
    spread = _spread(done[-1], done[-2])
    found = {
        k: Number(v, float(max(errors[k], spread[k], _ROUNDING * abs(v))), "quadrature")
        for k, v in done[-1].targets.items()
    }
    budget.rounded |= _is_rounding(done[-1], found)
    return found


def _is_rounding(last: _Pass, found: Mapping[str, Number]) -> bool:
    """Whether means that cancel leave their rounding of some target: nothing that works in doubles knows better."""
    lost = {name: n for name, n in found.items() if n.error > _LOST * abs(n.value)}
    moved = [last.moved(pattern, by_rounding=True)[1] for pattern in (1, 3)] if lost else []
    return any(abs(m[name] - n.value) > _MOSTLY * n.error for m in moved for name, n in lost.items())


def _disagreement(values: list[float]) -> float:
    """How far the last two passes are apart, or by those before should be: beside bent kinks two agree by chance.

    Errors of kinks fall from pass to pass by what they fell before, those of smooth integrands by its square.  What
    comes nearer from one side, faster from pass to pass, does so by no chance.
    """
    moves = [b - a for a, b in itertools.pairwise(values)]
    rates = [after / before if before else 0.0 for before, after in itertools.pairwise(moves)]
    if len(rates) > 2 and 0 <= rates[-1] <= rates[-2] <= rates[-3]:
        return abs(moves[-1])
    errors: list[float] = []
    for now in map(abs, moves):
        before, last = errors[-2:] if len(errors) > 1 else (1.0, 0.0)
        rate = last / before if last < before else 1.0
        expected = last * (rate if rate > _KINKED else rate**2)
        errors.append(now if now < _NO_CHANCE * expected else max(now, expected))
    return errors[-1]


def _spread(last: _Pass, earlier: _Pass) -> dict[str, float]:
    """How far the targets move when the means move within their errors; Unsettled where they would jump."""
    (first, one), (second, two) = (last.moved(pattern) for pattern in (1, 3))
    columns = [last.known, first, second, earlier.known]
    variants = {step.symbol: numpy.array([c[step.symbol] for c in columns]) for step in last.plan.steps}
    closed = [step.value for step in last.plan.steps if isinstance(step, Closed)]
    for expr in (*closed, *(expr for _, expr in last.plan.targets)):
        check_settled(expr, variants, last.constants)
    # the other way round, too: max(A − B, 0) may move to one side alone
    moved = [one, two, *(last.moved(-pattern)[1] for pattern in (1, 3))]
    return {name: max(abs(other[name] - v) for other in moved) for name, v in last.targets.items()}
