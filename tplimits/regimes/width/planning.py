"""Plans of the means and variances of targets, and their numbers put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tplimits.numbers.number import Number
from tplimits.numbers.plan import EvaluationPlan, plan

if TYPE_CHECKING:
    from tplimits.law.state import Derivation
    from tplimits.law.targets import Target


def planned(state: Derivation, wanted: Sequence[Target]) -> EvaluationPlan:
    """The steps to all means and variances."""
    expressions = {t.label: t.mean for t in wanted}
    expressions |= {f"Var {t.label}": t.variance for t in wanted if t.variance != 0}
    return plan(state.engine, expressions)


def combined(wanted: Sequence[Target], numbers: Mapping[str, Number]) -> dict[str, Number]:
    """Means and variances put together; what needed no integral is exact."""
    result = {}
    for t in wanted:
        number, spread = numbers[t.label], numbers.get(f"Var {t.label}")
        if spread is None:
            result[t.label] = number
        else:
            # rounding may leave less than nothing, which is no variance; how much tells how well it is known
            variance, doubt = max(spread.value, 0.0), max(spread.error, -spread.value)
            result[t.label] = Number(number.value, number.error, number.method, variance, doubt)
    return result
