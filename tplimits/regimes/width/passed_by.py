"""What all particles pass by: of 10⁶ step(10⁻⁶ − |x − 1|) each is 0, and so is their spread, and the mean is 0.48.

Integrals have cuts at kinks, and do not pass an island by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tplimits.errors import EvaluationError
from tplimits.numbers.budget import HiddenIsland
from tplimits.numbers.precision import SPREADS

if TYPE_CHECKING:
    from tplimits.law.observables import Observable
    from tplimits.numbers.number import Number


def passed_by(
    drawn: Mapping[str, Number], observables: Sequence[Observable], integral: Callable[[Observable], Number]
) -> dict[str, Number]:
    """Integrals that are not 0 where particles are; EvaluationError where one has an island between its nodes."""
    found = {}
    for o in observables:
        if float(drawn[o.label]):
            continue
        try:
            number = integral(o)
        except HiddenIsland as why:
            raise EvaluationError(f"moment not established: {why}") from None
        except EvaluationError:  # there is none
            continue
        if abs(number.value) > SPREADS * number.error:
            found[o.label] = number
    return found


def refuse_passed_by(numbers: Mapping[str, Number]) -> None:
    """EvaluationError where there is any."""
    for label, number in numbers.items():
        raise EvaluationError(
            f"moment not established: particles pass by what makes {label}. All are 0, and method='quadrature' finds "
            f"{number.value:.3g} ± {number.error:.1e}."
        )
