"""Second moments of kets in training that data decides, asked before the first step."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import networkx
import numpy

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.law.effort import Effort, TooMuch, deep
from tplimits.law.hypotheses.sampled import may_have_no_error, told
from tplimits.numbers import intervals
from tplimits.program.network.parameters import started
from tplimits.program.network.schedules import at_step
from tplimits.program.network.total import TotalProgram, late_vectors
from tplimits.program.nodes.entries import entries
from tplimits.program.nodes.kinds import InitialScalar, MatMul
from tplimits.regimes.kernels.numbers.judged import without_error
from tplimits.regimes.kernels.numbers.request import request
from tplimits.regimes.kernels.numbers.spreads import spreads
from tplimits.regimes.training.derivation.square_integrable import after_a_step, asked_of_widths, is_bounded, judged
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.evaluation import constants_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.law.state import Derivation
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.training.numbers.operator_request import TangentRequest
    from tplimits.regimes.training.numbers.request import TrainingRequest
    from tplimits.regimes.training.numbers.settings import Settings

#: nodes of expressions that a width limit may read before it is given up
_MOST = 200_000
#: error signals of outputs that vanish but for rounding, beside the largest
_NOTHING = 1e-9


def require(asked: TrainingRequest) -> None:
    """EvaluationError where a vector, or its gradient, is not seen to have a second moment at this data."""
    if not asked.recursion.doubts:
        return
    network = _at_its_start(asked)
    kets = _kets(asked, network)
    if kets is not None:
        constants = _constants(asked, network)
        request(kets, dict(asked.X), None, constants, asked.ratios)
        for why in kets.recursion.judged.infinite.values():
            raise EvaluationError(f"no number: {why}")
        _by_width(asked, kets, constants)
    for doubt in asked.recursion.open:
        if not doubt.later and asked.steps >= doubt.from_step:
            raise EvaluationError(f"no number: {doubt.told()}")


def squares_without_error(asked: TrainingRequest) -> dict[str, NDArray[numpy.bool_]]:
    """The words for squares that steps average and whose mean has no error, and at which inputs' error signals.

    An update of v in f = Avg(v g) that is linear in gradients moves f by Avg(g²); images W x and Wᵀ y are drawn with
    the mean of x² and y², which moves from that of the start.
    """
    recursion = asked.recursion
    if not may_have_no_error(recursion.network):
        return {}
    network = _at_its_start(asked)
    total = TotalProgram(network, recursion.moving)
    graph, initial = total.backward.program.graph, network.initial_names
    gradients = set[int]()
    for name in late_vectors(total) & set(recursion.moving):
        if recursion.optimizers[name].is_linear:
            gradients |= {int(use.gradient.source) for use in total.backward.gradients[name]}
    kets = _kets(asked, network)
    if kets is None:
        return {}
    _refuse_explosions(asked, kets)
    starts = {initial[name] for name in recursion.moving}
    moving = starts.union(*(networkx.descendants(graph, p) for p in starts))
    # f moves by g of now times g of before: what grows has no more moments for that, poles of two times lie apart
    gradients -= moving - kets.recursion.judged.exponential
    return without_variance(asked, kets, total, gradients, ())


def _refuse_explosions(asked: TrainingRequest, kets: KernelTables) -> None:
    """EvaluationError where a gradient grows exponentially within the spread that data give to what it reads."""
    judged = kets.recursion.judged
    if not any(map(judged.is_gradient, judged.exponential)):
        return
    read = request(kets, dict(asked.X), None, _constants(asked, kets.network), asked.ratios)
    for doubt in after_a_step(kets, asked.recursion.optimizers, spreads(kets, read.one, read.constants)):
        if doubt.name not in asked.recursion.assumed and asked.steps >= doubt.from_step:
            raise EvaluationError(f"no number: {doubt.told()}")


def operator_squares(asked: TangentRequest, drawn: Container[int]) -> dict[str, NDArray[numpy.bool_]]:
    """The same in the operator regime, whose images at the positions `drawn` are drawn from exact Gram matrices.

    Updates that are not bounded move f by gradients times gradients, both factors of which are averaged.
    """
    operator = asked.operator
    if operator.infinite or not may_have_no_error(asked.bound):
        return {}
    try:
        kets = judged(asked.bound, operator.trained, operator.assumed)
    except NoLimitError:  # what the kernels have was judged where they were derived
        kets = None
    if kets is None:
        return {}
    total = TotalProgram(asked.bound, operator.trained)
    unbounded = [name for name in operator.trained if not is_bounded(operator.optimizers[name])]
    uses = [use for name in unbounded for use in total.backward.gradients[name]]
    factors = {int(e.source) for use in uses for e in (use.gradient, use.operand) if e is not None}
    return without_variance(asked, kets, total, factors, drawn)


def without_variance(
    asked: Settings, kets: KernelTables, total: TotalProgram, averaged: set[int], drawn: Container[int]
) -> dict[str, NDArray[numpy.bool_]]:
    """The same of vectors whose squares are `averaged`, and of operands of all images but those that are `drawn`."""
    program = total.backward.program
    images = [p for p in total.needed if isinstance(program[p], MatMul) and p not in drawn]
    operands = {int(e.source) for p in images if isinstance(s := program[p], MatMul) for e in entries(s.operand)}
    constants = _constants(asked, total.network)
    read = request(kets, dict(asked.X), None, constants, asked.ratios)
    found: dict[str, NDArray[numpy.bool_]] = {}
    for (position, why), at_inputs in without_error(
        kets, read.one, read.constants, sorted(averaged | operands)
    ).items():
        helps = "give the parameter bounded updates, as those of tp.Adam" if position in averaged else "bound it"
        words = told(f"the square of |{program[position].name}⟩", why, helps)
        # an image is read by the outputs of its input whoever moves them, a gradient by updates alone
        found[words] = at_inputs | (position in operands and position < len(total.network))
    return found


def refuse_unknown(unknown: Mapping[str, NDArray[numpy.bool_]], signal: NDArray[numpy.float64]) -> None:
    """EvaluationError where an error signal weighs a square whose mean has no error."""
    for why, at_inputs in unknown.items():
        if numpy.any(abs(signal[at_inputs]) > _NOTHING * abs(signal).max()):
            raise EvaluationError(why)


def _kets(asked: TrainingRequest, network: Program) -> KernelTables | None:
    try:
        return judged(network, asked.recursion.moving, asked.recursion.assumed)
    except NoLimitError as error:
        raise EvaluationError(f"no number: {error}") from None


def _constants(asked: Settings, network: Program) -> dict[str, Any]:
    names = {*network.constants, *network.all_axes}
    return {name: value for name, value in at_step(asked.given, 0).items() if name in names}


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
    # without any, the same network remembers what was derived of it
    return started(network, starts) if starts else network
