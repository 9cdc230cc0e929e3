"""Loops of gradients in the order in which blocks of inputs go through them.

before        what does not depend on the inputs, once a step; sums over inputs start at zero
block         what does, for one block of inputs after another; sums over inputs grow
after         what rests on these sums, once a step
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy
from sympy import Symbol

from tplimits.program.loops.form import Loop, Loops, Statement


@dataclass(frozen=True)
class LoopSchedule:
    """Statements of one step; `forward` are those of `block` that the outputs rest on."""

    before: tuple[Statement, ...]
    forward: tuple[Statement, ...]
    backward: tuple[Statement, ...]
    after: tuple[Statement, ...]


def scheduled(loops: Loops, signal: str = "chi") -> LoopSchedule:
    """The schedule of loops that hold gradients."""
    first, second = loops.split(signal)
    grows = {s.target for s in second.statements if _sums_inputs(loops, s)}
    before = [s for s in first.statements if not _by_input(loops, s)]
    zeros = [_zero(loops, target) for target in loops.by_name if target in grows]
    more = [replace(s, add=True) if s.target in grows else s for s in second.statements]
    more = [s for s in more if not (s.target in grows and s.body == 0)]
    by_input = [s for s in more if _by_input(loops, s)]
    after = [s for s in more if not _by_input(loops, s)]
    forward = [s for s in first.statements if _by_input(loops, s)]
    return LoopSchedule((*before, *zeros), tuple(forward), tuple(by_input), tuple(after))


def _by_input(loops: Loops, s: Statement) -> bool:
    """Whether a statement runs over inputs."""
    return any(loop.extent == loops.samples for loop in (*s.loops, *s.summed))


def _sums_inputs(loops: Loops, s: Statement) -> bool:
    return _by_input(loops, s) and loops.samples not in loops.by_name[s.target].extents


def _zero(loops: Loops, target: str) -> Statement:
    extents = loops.by_name[target].extents
    over = tuple(Loop(Symbol(f"i{k}", integer=True), extent) for k, extent in enumerate(extents))
    return Statement(target, tuple(loop.index for loop in over), over, sympy.S.Zero)
