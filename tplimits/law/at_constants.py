"""Constants that are given to a limit: at some values of them it is another one.

A jump, a pole or a root may stand at the limit of its argument for one value of a constant alone: step(s − c) where s
tends to c, or step(c h + 1/n) at c = 0.  A derivation in symbols does not ask about single values, so a program that
has such places is derived again with its constants put in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from sympy import Expr

from tplimits.errors import EvaluationError, NoLimitError, ProgramError
from tplimits.program.nodes.domains import ends_of_domains, singular_places
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import Nonlin
from tplimits.program.parts import holds

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

L = TypeVar("L")


def given_numbers(program: Program, given: Mapping[str, Any], doubted: bool = False) -> dict[str, float | Expr]:
    """The constants of a program that have numbers, by those that are given and its own.

    None if nothing may jump, and no moment is `doubted`: exp(c x²) has one for some values of c.
    """
    values = {c: given.get(c, default) for c, default in program.constants.items()}
    numbers = {c: value for c, value in values.items() if _is_number(value)}
    return numbers if numbers and (doubted or _is_singular_somewhere(program)) else {}


def _is_number(value: object) -> bool:
    if isinstance(value, Expr):
        return bool(value.is_number and value.is_real)
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max


def at_constants(
    program: Program, values: Mapping[str, float | Expr], known: dict[Any, L], derive: Callable[[Program], L]
) -> L | None:
    """The limit of a program with constants put in, of which the last one is `known`; None where they cannot be.

    Raises EvaluationError where there is no limit at these values.
    """
    key = tuple(sorted((c, float(value)) for c, value in values.items()))
    if key not in known:
        try:
            bound = program.bind(**values)
        except ProgramError:  # divided by a constant that is 0: the numbers that rest on it say so
            return None
        shown = ", ".join(f"{c} = {value}" for c, value in values.items())
        try:
            found = derive(bound)
        except NoLimitError as refused:
            raise EvaluationError(f"no number at {shown}: {refused}") from None
        # one limit is kept: a scan over a constant would otherwise keep a derivation for each of its values
        known.clear()
        known[key] = found
    return known[key]


def at_zeros(
    program: Program, given: Mapping[str, Any], known: dict[Any, L], derive: Callable[[Program], L], symbolic: L
) -> tuple[L, dict[str, Any]]:
    """The limit with zeros put in for the constants that are 0, and what else is given; the symbolic one without any.

    What they multiply vanishes, and a jump may be all that is left.  Raises EvaluationError where there is no limit.
    """
    zeros = {c: value for c, value in given_numbers(program, given).items() if value == 0}
    found = at_constants(program, zeros, known, derive) if zeros else None
    if found is None:
        return symbolic, dict(given)
    return found, {name: value for name, value in given.items() if name not in zeros}


def _is_singular_somewhere(program: Program) -> bool:
    bodies = [s.body for s in program.instructions if isinstance(s, Nonlin)]
    return any(holds(b, *JUMPS) or singular_places(b) or ends_of_domains(b) for b in bodies)
