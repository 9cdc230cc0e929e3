"""What is 0 whatever weights and data are, as what would have to pass a jump: its derivative is 0 almost everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from sympy import S

from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.entries import entries
from tplimits.program.nodes.kinds import Avg, MatMul, Nonlin

if TYPE_CHECKING:
    from tplimits.program.network.backward import Backward, Use
    from tplimits.program.nodes.program import Program


def zeros(program: Program, known: Callable[[int], bool] = lambda position: False) -> frozenset[int]:
    """The positions that are 0 because of what is known to be."""
    found: set[int] = set()
    for position, s in enumerate(program):
        zero = known(position)
        if isinstance(s, (MatMul, Avg)):
            zero |= s.operand.source in found
        elif isinstance(s, Nonlin):
            gone = {e: S.Zero for e in entries(s.body) if e.source in found}
            zero |= bool((s.body.xreplace(gone) if gone else s.body) == 0)
        if zero:
            found.add(position)
    return frozenset(found)


@lru_cache(maxsize=32)
def total_of(network: Program) -> Backward:
    """The total program of a network, as networks run it: what passes a jump is 0, and no gradient of a parameter."""
    found = TotalProgram(network).backward
    still = zeros(found.program)

    def told(uses: Mapping[str, tuple[Use, ...]]) -> dict[str, tuple[Use, ...]]:
        return {name: tuple(u for u in many if u.gradient.source not in still) for name, many in uses.items()}

    if not still:
        return found
    return replace(found, gradients=told(found.gradients), shift_gradients=told(found.shift_gradients))


def behind_jumps(network: Program) -> tuple[str, ...]:
    """Parameters that the output depends on through jumps alone.

    >>> import tplimits as tp
    >>> @tp.network
    ... def jumping(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.sign(tp.sum(U * ξ, over="d"))
    >>> behind_jumps(jumping)
    ('U',)
    """
    whole, told = TotalProgram(network).backward, total_of(network)
    moved = (name for name, uses in whole.gradients.items() if uses or whole.shift_gradients[name])
    return tuple(name for name in moved if not (told.gradients[name] or told.shift_gradients[name]))
