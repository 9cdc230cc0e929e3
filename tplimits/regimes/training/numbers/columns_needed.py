"""How many columns of its matrices a training run needs, known before it starts.

Every input and every time is a column of each matrix that it meets, with `PER_COLUMN` particles each: the cost of a
request is (columns)² × particles.  Columns that repeat others, such as those of proportional inputs, are not counted
twice, so that a request with fewer particles than columns at most may still be in order.  Then few particles take the
first two steps, and tell how many new columns a step brings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy

from tplimits.errors import EvaluationError
from tplimits.numbers.columns import PER_COLUMN
from tplimits.program.network.loss import error_signal
from tplimits.program.nodes.kinds import InitialMatrix, MatMul
from tplimits.regimes.training.numbers.execution import TrainingExecution, particles_by_width
from tplimits.regimes.training.numbers.parameters import MatrixParameter

if TYPE_CHECKING:
    from tplimits.regimes.training.numbers.request import TrainingRequest

#: numbers that may be held only to count columns
_LARGEST = 1 << 28
#: a side of a matrix: its name and whether it is transposed
Side = tuple[str, bool]


def refuse_too_few(asked: TrainingRequest, more: str = "") -> None:
    """EvaluationError, with the numbers, the repair and `more`, for fewer particles than a run needs."""
    # columns of a time at rate 0 are those of the time before, unless constants or inputs change
    several = asked.drifting or asked.rows is not None
    moving = [t for t in range(asked.steps) if several or any(asked.rates_at(t).values())]
    most = _at_most(asked, moving)
    _, size = particles_by_width({"n": 1.0, **asked.ratios}, asked.particles, asked.block)
    # enough even if no column repeats another: nothing has to be counted
    if all(PER_COLUMN * count <= size[_width(asked, side)] for side, count in most.items()):
        return
    try:
        whole = replace(asked, rows=None)  # some of its columns are those of a part of the inputs
        counted = _counted(whole, moving) if _fits(whole, moving) else most
    except MemoryError:
        counted = most
    of = f"{'' if asked.rows is None else 'those looked at of '}{asked.inputs} inputs"
    # what is continued from two steps may overshoot what there can be at all
    fewest = {side: min(count, most[side]) for side, count in counted.items()}
    for (name, transposed), count in sorted(fewest.items(), key=lambda item: -item[1]):
        width = _width(asked, (name, transposed))
        if PER_COLUMN * count > size[width]:
            shown = f"{name}ᵀ" if transposed else name
            needed = math.ceil(PER_COLUMN * count / asked.ratios.get(width, 1.0))
            raise EvaluationError(
                f"too few particles: particles={asked.particles} for {count:,} columns of `{shown}` ({of} "
                f"at {1 + len(moving)} times). Every column takes {PER_COLUMN}: give "
                f"particles={needed} or more, fewer inputs or fewer steps.{more}"
            )


def _width(asked: TrainingRequest, side: Side) -> str:
    """What the columns that a matrix is applied to are made of."""
    network = asked.bound
    s = network[network.initial_names[side[0]]]
    assert isinstance(s, InitialMatrix)
    return s.rows if side[1] else s.columns


def _at_most(asked: TrainingRequest, moving: Sequence[int]) -> dict[Side, int]:
    """Columns of each side if none repeats: every entry of what a matrix is applied to, at every time."""
    total, program = asked.recursion.total, asked.sized
    found: dict[Side, int] = {}
    for position, s in enumerate(program):
        if isinstance(s, MatMul):
            forward = position < len(total.network)
            times = (*moving, asked.steps) if forward else moving or range(min(asked.steps, 1))
            side = (program[s.matrix].name, s.transposed)
            of_each = math.prod(int(program.size(a) or 1) for a in s.axes if a != total.axis)
            found[side] = found.get(side, 0) + of_each * _inputs(asked, times, total.axis in s.axes)
    return found


def _inputs(asked: TrainingRequest, times: Sequence[int], on_data: bool) -> int:
    """How many inputs are looked at at some times, together; one at a time for what does not depend on them."""
    if not on_data:
        return len(times)
    return asked.inputs * len(times) if asked.rows is None else sum(len(asked.rows(t)) for t in times)


def _fits(asked: TrainingRequest, moving: Sequence[int]) -> bool:
    """Whether the first two steps are few enough to be taken only to look at them."""
    few = max(_at_most(asked, moving[:2]).values(), default=0)
    return PER_COLUMN * few * few <= _LARGEST


def _counted(asked: TrainingRequest, moving: list[int]) -> dict[Side, int]:
    """Columns of each side at the end, of members of a family that with the most."""
    # two steps tell whether the columns that a step brings repeat earlier ones, at a price known before
    first = moving[:2]
    few = _at_most(asked, first)
    ratios = {side: asked.ratios.get(_width(asked, side), 1.0) for side in few}
    # enough for all columns of two steps: too few would make columns look dependent that are not
    particles = max(16, *(math.ceil(PER_COLUMN * count / ratios[side]) + PER_COLUMN for side, count in few.items()))
    execution = TrainingExecution(
        asked.recursion.total,
        asked.recursion.optimizers,
        asked.X,
        particles,
        min(asked.block, particles),
        numpy.random.default_rng(asked.seed),
        False,
        asked.ratios,
        asked.given,
    )
    signal, seen = error_signal(asked.error), []
    with numpy.errstate(all="ignore"):
        for t in (*first, None):
            f = execution.outputs(asked.steps if t is None else t)
            seen.append(_seen(execution))
            if t is not None:
                execution.step(t, signal(f, t), asked.rates_at(t), asked.kept)
    return _continued(seen, len(moving))


def _seen(execution: TrainingExecution) -> dict[Side, int]:
    """The columns so far."""
    found = {}
    for name, parameter in execution.parameters.items():
        if isinstance(parameter, MatrixParameter):
            for side in (False, True):
                counts = [matrix.initial.inputs[side].count for matrix in parameter.members.values()]
                found[name, side] = max(counts, default=0)
    return found


def _continued(seen: Sequence[Mapping[Side, int]], moves: int) -> dict[Side, int]:
    """Columns at the end of a run from those at its first times; where fewer and fewer are new, those of now."""
    last = dict(seen[-1])
    if moves <= 2:
        return last
    for side, count in last.items():
        new = count - seen[1][side]
        # the second step brings as many as the first: so will every other
        if new >= seen[1][side] - seen[0][side]:
            last[side] = count + new * (moves - 2)
    return last
