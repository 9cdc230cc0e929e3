"""How many entries the steps of a tape have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tplimits.regimes.kernels.derivation.leaves import SECOND, plain_axis
from tplimits.regimes.kernels.numbers.tables.labelled import bare, renamed, repeated
from tplimits.regimes.kernels.numbers.tables.laws import evaluated, part_of
from tplimits.regimes.kernels.numbers.tables.shifts import summed_entries

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.plan import KernelPlan
    from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
    from tplimits.regimes.kernels.numbers.tables.tape import Tape, TapeSchedule

#: how many entries of an array pass a law is worth
_LAW = 12
#: of a compiled tile: inputs a side, more gain nothing where inputs are many and take memory, and entries of all steps
_WIDEST, _LONGEST = 1024, 1 << 33


def largest(schedule: TapeSchedule, tape: Any, tables: Tables) -> int:
    """Entries of the largest array for one pair, or one input, of those that are computed.

    What is given for one input is there anyway: were 784 features counted, tiles would be six inputs wide.
    """
    sizes = sizes_of(schedule, tape, tables)
    computed = [n for n, step, _ in schedule.steps if step is not None]
    return max((math.prod(sizes.get(x, 1) for x in tape.labels[n]) for n in computed), default=1)


def entries(schedule: TapeSchedule, tape: Tape, tables: Tables) -> int:
    """Entries of all steps of one pair that compute something, a law for several."""
    sizes, total = sizes_of(schedule, tape, tables), 0
    for number, step, _ in schedule.steps:
        if step is not None and step.function not in (bare(renamed), bare(part_of), bare(repeated)):
            weight = _LAW if step.function is bare(evaluated) else 1
            total += weight * math.prod(sizes.get(x, 1) for x in tape.labels[number])
    return total


def sizes_of(schedule: TapeSchedule, tape: Tape, tables: Tables) -> dict[str, int]:
    """Sizes of all labels but those of inputs."""
    found: dict[str, int] = {}
    for number, step, _ in schedule.steps:
        for read in step.fixed[0] if step is not None and step.function is bare(summed_entries) else ():
            found.update(zip(read.labels, read.sizes, strict=True))
        for label in tape.labels[number]:
            sizes = tables.sides[1 if SECOND in label else 0].sizes
            if plain_axis(label) in sizes:
                found[label] = sizes[plain_axis(label)]
    return found


def step_of(plan: KernelPlan, block: int) -> int:
    """Inputs a side of a tile: as many as the arrays of all pairs leave room for, or as take a second or two."""
    if plan.is_compiled:
        return 16 * max(1, min(_WIDEST, math.isqrt(_LONGEST // max(1, plan.entries))) // 16)
    return max(1, math.isqrt(block // min(block, plan.largest)))
