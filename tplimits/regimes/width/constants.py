"""Constants that are given to a limit: at some values of them it is another one.

A jump, a pole or a root may stand at the limit of its argument for one value of a constant alone: step(s − c) where s
tends to c, or step(c h + 1/n) at c = 0.  A derivation in symbols does not ask about single values, so a program that
has such places is derived again with its constants put in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError, NoLimitError, ProgramError
from tplimits.law.hypotheses.pole import singular_places
from tplimits.law.hypotheses.root import ends_of_domains
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import OuterNonlin, ScalarNonlin
from tplimits.program.parts import holds
from tplimits.regimes.width.derivation import derive_width

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.width.limit import WidthLimit


def at_given_constants(limit: WidthLimit, given: Mapping[str, Any]) -> tuple[WidthLimit | None, dict[str, Any]]:
    """The limit with constants put in, and what else is given; None for the limit as it is.

    Raises EvaluationError where there is no limit at these values.
    """
    program = limit.program
    values = {c: given.get(c, default) for c, default in program.constants.items()}
    values = {c: value for c, value in values.items() if isinstance(value, (int, float)) and value == value}
    if not values or not _is_singular_somewhere(program):
        return None, dict(given)
    try:
        bound = program.bind(**values)
    except ProgramError:  # divided by a constant that is 0: the numbers that rest on it say so
        return None, dict(given)
    key = tuple(sorted((c, float(value)) for c, value in values.items()))
    known = limit.at_constants
    if key not in known:
        known.clear()
        known[key] = _derived(limit, bound, values)
    return known[key], {name: value for name, value in given.items() if name not in values}


def _derived(limit: WidthLimit, bound: Program, values: Mapping[str, Any]) -> WidthLimit:
    shown = ", ".join(f"{c} = {value}" for c, value in values.items())
    try:
        found = type(limit)(bound, derive_width(bound.released))
    except NoLimitError as refused:
        raise EvaluationError(f"no number at {shown}: {refused}") from None
    taken_on = [name for name in limit.state.assumed if name in found.state.doubtful()]
    return found.assuming(taken_on) if taken_on else found


def _is_singular_somewhere(program: Program) -> bool:
    bodies = [s.body for s in program.instructions if isinstance(s, (OuterNonlin, ScalarNonlin))]
    return any(holds(b, *JUMPS) or singular_places(b) or ends_of_domains(b) for b in bodies)
