"""Numbers for the observables of a derivation: exact first, then quadrature, then particles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError, shown
from tplimits.law import targets
from tplimits.law.hypotheses.reader import Unreadable
from tplimits.law.hypotheses.sampled import may_have_no_error, no_error, told
from tplimits.law.observables import BracketObservable, Observable, ScalarObservable, keys
from tplimits.law.observables import observables as all_observables
from tplimits.law.state import Derivation, width_ratio
from tplimits.law.unroll import label
from tplimits.numbers import intervals
from tplimits.numbers.budget import AUTO, QUADRATURE, Budget, TooManyNodes
from tplimits.numbers.closed_values import exact
from tplimits.numbers.number import Number, all_finite
from tplimits.numbers.passes import quadrature
from tplimits.numbers.precision import SPREADS, Unsettled
from tplimits.numbers.replicates import Particles
from tplimits.numbers.replicates import evaluate as by_draws
from tplimits.numbers.steep.errors import SteepError
from tplimits.program.language.render import number_text
from tplimits.program.nodes.bind import given_constants
from tplimits.program.nodes.entries import constant_symbol, entries
from tplimits.program.nodes.given import by_name, exact_number, names_of, real_array, width_ratios, word_of
from tplimits.program.nodes.kinds import InitialScalar, MatMul
from tplimits.program.nodes.laws import NORMAL
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.passed_by import passed_by, refuse_passed_by
from tplimits.regimes.width.planning import combined, planned
from tplimits.regimes.width.settled import at_kinks, read_off_law

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.program.nodes.program import Program

#: a quadrature with a larger relative error is weighed against particles
_COARSE = 1e-3
#: a closed form less accurate than this is weighed against the integral it was made from
_ROUGH = 1e-9
METHODS = ("auto", "exact", "quadrature", "particles")


def constants_of(program: Program, given: Mapping[str, Any], ratios: Mapping[str, float]) -> dict[Symbol, Expr]:
    """Values of constants, given scalars and ratios of widths, by symbol; EvaluationError when one is missing."""
    given = dict(given)
    own = given_constants(program, given)
    values = {constant_symbol(name): exact_number(name, value, EvaluationError) for name, value in own.items()}
    for instruction in program.instructions:
        if isinstance(instruction, InitialScalar):
            values.update(_scalar_values(program, instruction, given))
    others = width_ratios(program, ratios, EvaluationError)
    # ratios are constants of the limit as others are
    values.update({width_ratio(width): ratio for width, ratio in others.items()})
    if given:
        raise EvaluationError(f"`{min(given)}` is not a constant or a given scalar of `{program.name}`.")
    return values


def _scalar_values(program: Program, scalar: InitialScalar, given: dict[str, Any]) -> dict[Symbol, Expr]:
    if scalar.name not in given:
        if scalar.value is None:
            drawn = "" if scalar.law == NORMAL else f" (drawn, {scalar.law.described(number_text)})"
            raise EvaluationError(
                f"the scalar `{scalar.name}`{drawn} has no value, and the limit depends on it: give {scalar.name}=…."
            )
        return {}
    shape = tuple(int(program.size(a) or 0) for a in scalar.axes)
    array = real_array(scalar.name, given.pop(scalar.name), shape=shape)
    labels = {index: label(scalar.name, scalar.axes, index) for index in numpy.ndindex(*shape)}
    return {
        constant_symbol(name): exact_number(scalar.name, array[index], EvaluationError)
        for index, name in labels.items()
    }


def evaluate(
    program: Program,
    state: Derivation,
    observables: Sequence[Observable],
    method: str,
    asked: Particles,
    ratios: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    only: Sequence[str] | None = None,
) -> dict[str, Number]:
    """A Number for every observable; see `WidthLimit.evaluate`."""
    word_of("method", method, METHODS, EvaluationError)
    constants, ratios = by_name(constants, "constants", EvaluationError), by_name(ratios, "ratios", EvaluationError)
    asked.checked()
    values = constants_of(program, constants, ratios)

    def by_particles(chosen: Sequence[Observable]) -> dict[str, Number]:
        if state.fluctuations:
            raise EvaluationError(
                f"`{program.name}` contains fluctuation scalars √n·Avg, whose variance particles do not give: use "
                "method='exact' or 'quadrature'."
            )
        _refuse_without_error(program, state, chosen, values)
        settled = at_kinks(state, chosen, values)
        while True:
            try:
                return by_draws(program, chosen, asked, ratios, constants, settled)
            except SteepError as error:  # the law may know the scalars that it is steep in
                more = read_off_law(state, [k for k in state.scalars if k[0] in error.positions], values)
                if more.keys() <= settled.keys():
                    raise
                settled |= more

    refused = state.settle(partial(intervals.values, state.engine, constants=values))
    found = _Evaluation(program, state, values, method, by_particles, refused)
    return all_finite(found.numbers(_chosen(program, observables, only)))


def _refuse_without_error(
    program: Program, state: Derivation, chosen: Sequence[Observable], values: Mapping[Symbol, Expr]
) -> None:
    """EvaluationError where particles average a product that has no variance: a bracket, or the square of an operand.

    Images W x are drawn with the mean of x² over particles as their variance.
    """
    if not may_have_no_error(program):
        return
    above = program.behind(position for o in chosen for position, _ in keys(o))
    read = {int(e.source) for p in above if isinstance(s := program[p], MatMul) for e in entries(s.operand)}
    pairs = [(o.left, o.right) for o in chosen if isinstance(o, BracketObservable)]
    pairs += [(key, key) for key in state.kets if key[0] in read]
    for left, right in pairs:
        kets = [state.kets[key].expr.xreplace(dict(values)) for key in (left, right)]
        if why := no_error(kets[0], kets[1], state.gaussians):
            one, other = state.label(left), state.label(right)
            product = f"|{one}⟩²" if one == other else f"|{one}⟩|{other}⟩"
            raise EvaluationError(told(product, why, "take method='quadrature'"))


def integrated(program: Program, ratios: Mapping[str, float], constants: Mapping[str, Any]) -> dict[str, Number]:
    """What a program returns, a scalar, derived and integrated at given numbers."""
    indices = {program.names[s.name]: constants[s.name] for s in program if isinstance(s, InitialScalar) and s.of}
    state, none = derive_width(program, data=indices), Particles(16, 2, 0, "white")
    returned = [o for o in all_observables(program) if isinstance(o, ScalarObservable) and o.key[0] in program.returns]
    return evaluate(program, state, returned, "quadrature", none, ratios, constants)


def _chosen(program: Program, observables: Sequence[Observable], only: Sequence[str] | None) -> list[Observable]:
    """The observables asked for."""
    if only is None:
        return list(observables)
    labels = [o.label for o in observables]
    only = names_of("only", only, EvaluationError)
    for name in only:
        if name not in labels:
            others = f"the labels are {', '.join(labels)}."
            raise EvaluationError(f"only={shown(name)}: {program.written_out.get(name, others)}")
    return [o for o in observables if o.label in only]


@dataclass
class _Evaluation:
    """One call: all observables together, and one by one when that fails."""

    program: Program
    state: Derivation
    values: Mapping[Symbol, Expr]
    method: str
    by_particles: Callable[[Sequence[Observable]], dict[str, Number]]
    refused: Sequence[tuple[Key, str]] = ()
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        others = self.method == "auto" and not self.state.fluctuations  # whose variance particles do not give
        # where particles can take over, hard integrals are given up sooner
        self.budget = Budget(AUTO if others else QUADRATURE)

    @property
    def opened(self) -> Derivation:
        """The same derivation with nothing closed: another route to the same numbers, for all calls."""
        if self.state.opened is None:
            self.state.opened = derive_width(
                self.program, table=(), with_dots=self.state.with_dots, data=self.state.data
            )
        return self.state.opened

    def numbers(self, observables: Sequence[Observable]) -> dict[str, Number]:
        """Numbers for all of these."""
        try:
            return self._together(observables)
        except EvaluationError as error:
            # no part of the request is left to have numbers of its own
            if len(observables) == 1:
                raise
            first = error
        found: dict[str, Number] = {}
        failed: dict[str, EvaluationError] = {}
        for observable in observables:
            try:
                found |= self._together([observable])
            except EvaluationError as error:
                failed[observable.label] = error
        if not failed:
            return found
        if not found:
            raise first
        given = ", ".join(repr(label) for label in found)
        label, reason = next(iter(failed.items()))
        raise EvaluationError(
            f"no number for {', '.join(failed)}. Of {label}: {reason} The others have one: evaluate(only=({given},))."
        ) from reason

    def _together(self, observables: Sequence[Observable]) -> dict[str, Number]:
        """By the method asked for; "auto": exact where closed, else integrated, else by particles."""
        self._refuse(observables)
        if self.method == "particles":
            return self._drawn(observables)
        if self.method == "exact":
            return self._exact(observables)
        if self.method == "quadrature":
            return self._integrated(self.opened, observables)
        try:
            result = self._best_integrated(observables)
        except TooManyNodes:
            if len(observables) > 1:
                raise
            if self.state.fluctuations:
                raise EvaluationError(
                    f"the integrals of {observables[0].label} cost too many evaluations, and particles do not give the "
                    f"variance of the fluctuation scalars √n·Avg that `{self.program.name}` contains: ask for fewer "
                    "entries, or derive the part of the program without fluctuations alone."
                ) from None
            return self._drawn(observables)
        coarse = [o for o in observables if _coarse(result[o.label])]
        # particles do not give variances of fluctuation scalars
        if not coarse or self.state.fluctuations or self.budget.rounded:
            return result
        try:
            sampled = self.by_particles(coarse)  # a hard integral: the particles may know better
        except EvaluationError:  # or have no error
            return result
        # `not … >=`: also where the quadrature has no error to compare with; 0 at all particles is no better number
        better = {
            k: n for k, n in sampled.items() if not n.error >= result[k].error and (n.value or not result[k].value)
        }
        return result | better

    def _drawn(self, observables: Sequence[Observable]) -> dict[str, Number]:
        """By particles, and what they pass by, asked of quadrature with all that it may spend."""
        found, asked = self.by_particles(observables), replace(self, method="quadrature")
        more = passed_by(found, observables, lambda o: asked._integrated(asked.opened, [o])[o.label])
        if self.method == "particles":
            refuse_passed_by(more)
        return found | more

    def _refuse(self, observables: Sequence[Observable]) -> None:
        for observable in observables:
            for position, index in keys(observable):
                reason = self.state.reason_against(position, index, self.refused)
                if reason:
                    raise EvaluationError(reason)

    def _exact(self, observables: Sequence[Observable]) -> dict[str, Number]:
        wanted = [targets.target(self.state, o) for o in observables]
        opened = [t.label for t in wanted if not planned(self.state, [t]).closed]
        if opened:
            raise EvaluationError(f"no closed form for {', '.join(opened)}: use method='quadrature' or 'particles'.")
        return self._integrated(self.state, observables)

    def _best_integrated(self, observables: Sequence[Observable]) -> dict[str, Number]:
        """Through the closed forms; by plain integrals where a closed form is singular at these numbers."""
        try:
            closed = self._integrated(self.state, observables)
        except Unsettled:
            return self._integrated(self.opened, observables)
        rough = any(n.error > _ROUGH * max(1.0, abs(n.value)) for n in closed.values())
        if not rough or not self.state.engine.used_rows:  # without rows of the table both routes are one integral
            return closed
        try:
            plain = self._integrated(self.opened, observables)
        except EvaluationError:
            return closed
        return {k: n if n.error <= plain[k].error else plain[k] for k, n in closed.items()}

    def _integrated(self, state: Derivation, observables: Sequence[Observable]) -> dict[str, Number]:
        wanted = [targets.target(state, o) for o in observables]
        for t, o in zip(wanted, observables, strict=True):
            if why := t.infinite or (t.variance != 0 and self._infinite(state, o)):
                raise EvaluationError(why)
        plan = planned(state, wanted)
        try:
            if plan.closed and state is self.state:
                return combined(wanted, exact(plan, self.values))
            return combined(wanted, quadrature(plan, {s: float(v) for s, v in self.values.items()}, self.budget))
        except Unsettled as error:
            raise error.told(state.engine.written_out, self.values) from None

    def _infinite(self, state: Derivation, observable: Observable) -> str:
        """Why an observable that stays random has no variance at these numbers; "" also where these are not known."""

        def read(wanted: list[Expr]) -> list[Expr]:
            found = intervals.intervals(state.engine, wanted, self.values)
            return [sympy.Float(n.value) if abs(n.value) > SPREADS * n.error else sympy.S.Zero for n in found]

        with contextlib.suppress(Unreadable):
            return targets.infinite_at(state, observable, self.values, read)
        return ""


def _coarse(number: Number) -> bool:
    """Whether a quadrature has not converged to three digits."""
    return number.method == "quadrature" and not number.error <= _COARSE * max(1e-6, abs(number.value))
