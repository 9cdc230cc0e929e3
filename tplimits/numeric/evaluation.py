"""Numbers for the observables of a derivation: exact first, then quadrature, then particles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError, ProgramError
from tplimits.limit import targets
from tplimits.limit.observables import Observable
from tplimits.limit.state import State, width_ratio
from tplimits.limit.targets import Target
from tplimits.limit.unroll import label
from tplimits.limit.width import derive_width
from tplimits.numeric import particles as particle_method
from tplimits.numeric.cut_grid import TooManyNodes
from tplimits.numeric.number import Number
from tplimits.numeric.plan import Plan, exact, plan, quadrature
from tplimits.program.entries import constant_symbol
from tplimits.program.nodes import InitialScalar
from tplimits.program.program import Program
from tplimits.program.tracing import exact as exact_number
from tplimits.progress import Progress

#: a quadrature with a larger relative error is weighed against particles
_COARSE = 1e-3
METHODS = ("auto", "exact", "quadrature", "particles")


def constants_of(program: Program, given: Mapping[str, Any], ratios: Mapping[str, float]) -> dict[Symbol, Expr]:
    """Values of constants, given scalars and ratios of widths, by symbol; EvaluationError when one is missing."""
    given = dict(given)
    values: dict[Symbol, Expr] = {}
    for name, default in program.constants.items():
        value = given.pop(name, default)
        if value is None:
            raise EvaluationError(f"the constant `{name}` of `{program.name}` has no value: give {name}=….")
        values[constant_symbol(name)] = _finite(name, value)
    for instruction in program.instructions:
        if isinstance(instruction, InitialScalar):
            values.update(_scalar_values(program, instruction, given))
    for name in ratios:
        if name not in program.widths or name == "n":
            raise EvaluationError(
                f"ratios={{{name!r}: …}}: the widths besides n are {[w for w in program.widths if w != 'n']}."
            )
    for width in program.widths:
        if width != "n":
            ratio = _finite(width, ratios.get(width, 1))
            if ratio <= 0:
                raise EvaluationError(f"ratios={{{width!r}: {ratio}}}: a ratio of widths is positive.")
            values[width_ratio(width)] = ratio
    if given:
        raise EvaluationError(f"`{min(given)}` is not a constant or a given scalar of `{program.name}`.")
    return values


def _scalar_values(program: Program, scalar: InitialScalar, given: dict[str, Any]) -> dict[Symbol, Expr]:
    if scalar.name not in given:
        if scalar.value is None:
            raise EvaluationError(f"the scalar `{scalar.name}` has no value: give {scalar.name}=….")
        return {}
    shape = tuple(int(program.size(a) or 0) for a in scalar.axes)
    array = numpy.asarray(given.pop(scalar.name), dtype=float)
    if array.shape != shape:
        raise EvaluationError(f"`{scalar.name}` has shape {array.shape}; it needs {shape}.")
    return {
        constant_symbol(label(scalar.name, scalar.axes, index)): _finite(scalar.name, array[index])
        for index in numpy.ndindex(*shape)
    }


def _finite(name: str, value: Any) -> Expr:
    try:
        number = value if isinstance(value, Expr) else exact_number(value)
    except (TypeError, ValueError, OverflowError, ProgramError):
        raise EvaluationError(f"{name}={value!r}: give a finite number.") from None
    if number.free_symbols or not number.is_finite or not number.is_real:
        raise EvaluationError(f"{name}={value!r}: give a finite number.")
    return number


def evaluate(
    program: Program,
    state: State,
    observables: Sequence[Observable],
    method: str = "auto",
    particles: int = 4096,
    replicates: int = 8,
    seed: int = 0,
    conditioning: str = "white",
    ratios: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    progress: Progress = None,
) -> dict[str, Number]:
    """A Number for every observable; see `WidthLimit.evaluate`."""
    if method not in METHODS:
        raise EvaluationError(f"method={method!r}: the methods are {', '.join(METHODS)}.")
    values = constants_of(program, constants or {}, ratios or {})

    def by_particles(chosen: Sequence[Observable]) -> dict[str, Number]:
        if state.fluctuations:
            raise EvaluationError(
                f"`{program.name}` contains fluctuation scalars √n·Avg, whose variance particles do not give: use "
                "method='exact' or 'quadrature'."
            )
        return particle_method.evaluate(
            program,
            chosen,
            particles,
            replicates,
            seed,
            conditioning,
            ratios or {},
            constants or {},
            executor,
            progress,
        )

    if method == "particles":
        return by_particles(observables)
    if method == "quadrature":  # nothing closed: an independent route to the same numbers
        state = derive_width(program, table=(), with_dots=state.with_dots)
    wanted = [targets.target(state, o) for o in observables]
    whole = _plan(state, wanted)
    if method == "exact" and not whole.closed:
        opened = [t.label for t in wanted if not _plan(state, [t]).closed]
        raise EvaluationError(f"no closed form for {', '.join(opened)}: use method='quadrature' or 'particles'.")
    try:
        result = _combined(wanted, _numbers(whole, values, method))
    except TooManyNodes:
        result = {}
    if result and (method != "auto" or state.fluctuations or not _coarse(result)):
        return result
    if result:  # a hard integral: the particles may know better
        sampled = by_particles([o for o in observables if o.label in _coarse(result)])
        return result | {k: n for k, n in sampled.items() if n.error < result[k].error}
    for observable, target in zip(observables, wanted, strict=True):
        try:
            result |= _combined([target], _numbers(_plan(state, [target]), values, method))
        except TooManyNodes:
            if method == "quadrature":
                raise
            result |= by_particles([observable])
    return result


def _coarse(numbers: Mapping[str, Number]) -> set[str]:
    """Numbers whose quadrature has not converged to three digits."""
    return {k for k, n in numbers.items() if n.error > _COARSE * max(1e-6, abs(n.value))}


def _plan(state: State, wanted: Sequence[Target]) -> Plan:
    expressions = {t.label: t.mean for t in wanted}
    expressions |= {f"Var {t.label}": t.variance for t in wanted if t.variance != 0}
    return plan(state.engine, expressions)


def _numbers(plan: Plan, values: Mapping[Symbol, Expr], method: str) -> dict[str, Number]:
    if plan.closed and method != "quadrature":
        return exact(plan, values)
    return quadrature(plan, {s: float(v) for s, v in values.items()})


def _combined(wanted: Sequence[Target], numbers: Mapping[str, Number]) -> dict[str, Number]:
    """Means and variances put together; what needed no integral is exact."""
    result = {}
    for t in wanted:
        number, spread = numbers[t.label], numbers.get(f"Var {t.label}")
        if spread is None:
            result[t.label] = number
        else:
            result[t.label] = Number(number.value, number.error, number.method, spread.value, spread.error)
    return result
