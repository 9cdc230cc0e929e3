"""Numbers of a plan without integrals: in many digits, with what the rounding of these does where they cancel.

Each closed value is rounded to forty digits before others are made of it.  A difference of two has no digits left where
the limit is 0 by an identity that no algebra has seen: it is 10⁻⁴³, and its sign is no sign.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import SMALLEST, Number
from tplimits.numbers.plan import Closed, EvaluationPlan
from tplimits.numbers.precision import (
    DIGITS,
    SPREADS,
    double,
    high_precision,
    share_of_error,
    singular_nodes,
    zero_within_error,
)
from tplimits.program.nodes.evaluate import evaluate

#: patterns of signs with which closed values are moved, their contraries among them
_PATTERNS = (1, 3, -1, -3)
#: a relative move in doubles, and by how many times as much what does not cancel may move with it
_MOVE, _TAME = 1e-9, 1e4
#: the relative rounding of a closed value
_ROUNDED = sympy.Float(10, DIGITS) ** (2 - DIGITS)
_DOUBLE = 2.0**-52


def exact(plan: EvaluationPlan, constants: Mapping[Symbol, Expr]) -> dict[str, Number]:
    """Targets of a closed plan in high precision, rounded to doubles; 0 where they are it within their rounding.

    Raises Unsettled where a jump, a logarithm or a pole is met at such a zero.
    """
    known = _values(plan, constants)
    found = {name: high_precision(expr, known) for name, expr in plan.targets}
    errors = dict.fromkeys(found, sympy.S.Zero)
    if _may_cancel(plan, constants, known):
        errors = _errors(plan, constants, known, found)
    result = {}
    for name, expr in plan.targets:
        value = 0.0 if abs(found[name]) <= SPREADS * errors[name] else double(found[name], expr)
        # what is no zero and has no double is off by the smallest one
        least = SMALLEST if abs(value) < sys.float_info.min and found[name] != 0 else 0.0
        result[name] = Number(value, max(abs(value) * _DOUBLE, float(errors[name]), least), "exact")
    return result


def _values(plan: EvaluationPlan, constants: Mapping[Symbol, Expr], pattern: int = 0) -> dict[Symbol, Expr]:
    """All closed values; moved by their rounding, up or down by the pattern."""
    known: dict[Symbol, Expr] = {s: sympy.sympify(v) for s, v in constants.items()}
    for place, step in enumerate(plan.steps):
        assert isinstance(step, Closed)
        value = high_precision(step.value, known)
        known[step.symbol] = value * (1 + share_of_error(place, pattern) * _ROUNDED) if pattern else value
    return known


def _read(plan: EvaluationPlan) -> Iterator[Expr]:
    """What has a sign or a size that others rest on: targets, values, and arguments of what is singular."""
    steps = {step.symbol for step in plan.steps}
    for expr in (*(s.value for s in plan.steps if isinstance(s, Closed)), *(e for _, e in plan.targets)):
        if not steps.isdisjoint(expr.free_symbols):
            yield expr
            yield from (s.argument for s in singular_nodes(expr) if not steps.isdisjoint(s.argument.free_symbols))


def _may_cancel(plan: EvaluationPlan, constants: Mapping[Symbol, Expr], known: Mapping[Symbol, Expr]) -> bool:
    """Whether something moves by far more than the closed values that it is made of, or is no double."""
    read = [e for e in dict.fromkeys(_read(plan)) if e.has(sympy.Add)]
    if not read:
        return False
    columns: dict[Expr, Array | float] = {s: float(v) for s, v in constants.items()}
    with numpy.errstate(all="ignore"):
        for place, step in enumerate(plan.steps):
            shares = numpy.array([0.0, *(share_of_error(place, pattern) for pattern in _PATTERNS)])
            columns[step.symbol] = float(known[step.symbol]) * (1 + _MOVE * shares)
        try:
            values = [numpy.atleast_1d(evaluate(e, columns)) for e in read]
        except EvaluationError:
            return True
        return not all(abs(v - v[0]).max() <= _TAME * _MOVE * abs(v[0]) for v in values)


def _errors(
    plan: EvaluationPlan, constants: Mapping[Symbol, Expr], known: Mapping[Symbol, Expr], found: Mapping[str, Expr]
) -> dict[str, Expr]:
    """By how much the targets move with the rounding of closed values."""
    variants = [known, *(_values(plan, constants, pattern) for pattern in _PATTERNS)]
    for expr in _read(plan):
        for head, argument, continuous in singular_nodes(expr):
            # what a root of 0 moves by is seen in the targets
            if continuous:
                continue
            here, *away = (high_precision(argument, variant) for variant in variants)
            spread = max(abs(v - here) for v in away)
            if spread != 0 and abs(here) <= SPREADS * spread:
                raise zero_within_error(head, argument, float(here), float(spread))
    return {
        name: max(abs(high_precision(expr, variant) - found[name]) for variant in variants)
        for name, expr in plan.targets
    }
