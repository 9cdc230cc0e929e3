"""Second moments of kets in training that data decides, asked before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.law.effort import Effort, TooMuch, deep
from tplimits.numbers import intervals
from tplimits.program.network.schedules import at_step
from tplimits.program.nodes.given import exact_number
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.regimes.kernels.numbers.request import request
from tplimits.regimes.training.derivation.square_integrable import asked_of_widths, judged
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.evaluation import constants_of

if TYPE_CHECKING:
    from tplimits.law.state import Derivation
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.training.numbers.request import TrainingRequest

#: nodes of expressions that a width limit may read before it is given up
_MOST = 200_000


def require(asked: TrainingRequest) -> None:
    """EvaluationError where a vector, or its gradient, is not seen to have a second moment at this data."""
    if not asked.recursion.doubts:
        return
    network = _at_its_start(asked)
    try:
        kets = judged(network, asked.recursion.moving, asked.recursion.assumed)
    except NoLimitError as error:
        raise EvaluationError(f"no number: {error}") from None
    if kets is not None:
        names = {*network.constants, *network.all_axes}
        constants = {name: value for name, value in at_step(asked.given, 0).items() if name in names}
        request(kets, dict(asked.X), None, constants, asked.ratios)
        for why in kets.recursion.judged.infinite.values():
            raise EvaluationError(f"no number: {why}")
        _by_width(asked, kets, constants)
    for doubt in asked.recursion.open:
        if not doubt.later:
            raise EvaluationError(f"no number: {doubt.told()}")


def _by_width(asked: TrainingRequest, kets: KernelTables, constants: Mapping[str, Any]) -> None:
    """The same of what rests on means over two neurons: by the width limit of both passes, at one input after another.

    Data are scalars that are given, so that one derivation serves all inputs.
    """
    positions = asked_of_widths(kets)
    if not positions:
        return
    program = kets.network.sized({a: asked.bound.size(a) for a in kets.network.all_axes})
    if any(isinstance(s := program[p], InitialScalar) and s.of is not None for p in program.inputs):
        # look-ups by data are no symbols: nothing here is told of them
        for doubt in positions.values():
            if doubt.name not in asked.recursion.assumed:
                raise EvaluationError(f"no number: {doubt.told()}")
        return
    try:
        with deep(program.name, EvaluationError):
            state = derive_width(program, effort=Effort(_MOST))
            state.assume([name for name in asked.recursion.assumed if name in state.doubtful()])
            state.pending = [one for one in state.pending if one[-1][0] in positions]
            for i in range(asked.inputs):
                given = {**constants, **{name: array[i] for name, array in asked.X.items()}}
                numbers = partial(intervals.values, state.engine, constants=constants_of(program, given, asked.ratios))
                # what a row of zeros makes 0 is so at every width
                for (position, _), why in state.settle(lambda q, f=numbers: [v for v in f(q) if not v.is_nothing]):
                    if position in positions:
                        raise NoLimitError(why)
    except NoLimitError as error:
        raise EvaluationError(f"no number: {error}") from None
    except TooMuch:
        raise EvaluationError(f"no number: {next(iter(positions.values())).told()}") from None


def refuse_singular(state: Derivation) -> None:
    """NoLimitError where a mean that was left open is 0 in disguise; constants without values are not asked of."""
    for _, found in state.asked_again(partial(intervals.values, state.engine, constants={})):
        if isinstance(found, NoLimitError):
            raise found


def _at_its_start(asked: TrainingRequest) -> Program:
    """The network with the scalars that parameters start at."""
    network = asked.recursion.network
    starts = {name: value for name, value in at_step(asked.given, 0).items() if name in network.initial_names}
    instructions = tuple(
        replace(s, value=exact_number(s.name, starts[s.name], EvaluationError))
        if isinstance(s, InitialScalar) and s.name in starts
        else s
        for s in network
    )
    return network.replace(instructions=instructions)
