"""Second moments of kets in training that data decides, asked before the first step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.program.network.schedules import at_step
from tplimits.program.nodes.given import exact_number
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.regimes.kernels.numbers.request import request
from tplimits.regimes.training.derivation.square_integrable import judged

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.numbers.request import TrainingRequest


def require(asked: TrainingRequest) -> None:
    """EvaluationError where a vector, or its gradient, is not seen to have a second moment at this data."""
    open_ = asked.recursion.open
    if not open_:
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
    for doubt in open_:
        if not doubt.later:
            raise EvaluationError(f"no number: {doubt.told()}")


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
