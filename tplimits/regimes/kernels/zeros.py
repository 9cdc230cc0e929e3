"""Kernels at constants that are 0: what they multiply vanishes, and a jump may be all that is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tplimits.law.at_constants import at_constants, given_numbers
from tplimits.regimes.kernels.derivation.derivation import KernelTables, derive_kernels

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.limit import KernelLimit


def at_zeros(limit: KernelLimit, given: Mapping[str, Any]) -> tuple[KernelTables, dict[str, Any]]:
    """The recursion with zeros put in for the constants that are 0, and what else is given.

    Raises EvaluationError where there is no limit with them.
    """
    zeros = {c: value for c, value in given_numbers(limit.program, given).items() if value == 0} if given else {}

    def derived(bound: Program) -> KernelTables:
        return derive_kernels(bound, limit.regime.train, limit.regime.infinite, limit.assumed)

    found = at_constants(limit.program, zeros, limit.derivation.remembered["zeros"], derived) if zeros else None
    if found is None:
        return limit.derivation, dict(given)
    return found, {name: value for name, value in given.items() if name not in zeros}
