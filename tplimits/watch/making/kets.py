"""The limit of feature learning with matrices: kets as particles, operators in place of matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import standard_error
from tplimits.numbers.threads import one_thread
from tplimits.program.files.arrays import flat, nested
from tplimits.program.network.gradient_rows import gradient_rows
from tplimits.program.network.run_asked import RunAsked
from tplimits.regimes.training.feature_learning import MaximalLimit
from tplimits.regimes.training.numbers import gates, singular
from tplimits.regimes.training.numbers.averages import widening
from tplimits.regimes.training.numbers.columns_needed import refuse_too_few
from tplimits.regimes.training.numbers.execution import SHARE
from tplimits.regimes.training.numbers.feature_learning import Replicate, judge
from tplimits.regimes.training.numbers.request import TrainingRequest, request
from tplimits.watch.making.engine import Engine

if TYPE_CHECKING:
    from tplimits.program.network.total import TotalProgram
    from tplimits.regimes.training.numbers.execution import TrainingExecution
    from tplimits.watch.making.asked import Asked

#: what counts in a recording, where a reader may think of batches and frames alone
_COUNTED = (
    " At every frame all inputs and probes count, at other steps those of its batch: fewer frames (every=) and smaller "
    "batches need less; tp.inf may be left out, or watched on fewer inputs by a call of its own."
)


def requested(asked: Asked, width: float, seed: int) -> TrainingRequest:
    """The run of one seed, checked: EvaluationError before any step where particles are too few for all of them."""
    limit = asked.limit.derived
    assert isinstance(limit, MaximalLimit)
    run = RunAsked(
        asked.with_probes,
        asked.signal,
        asked.rates,
        asked.steps,
        asked.scalars(width, seed),
        asked.ratios,
        asked.detail.particles,
        asked.detail.replicates,
        seed,
        asked.detail.block,
    )
    found = request(limit.recursion, run, ())
    if asked.given_to(width, seed).keys() - run.given.keys():
        raise EvaluationError(
            "start=…: the limit of a network with matrices goes on from its own start alone; leave tp.inf out."
        )
    if not _judged_on_data(found.recursion.total):
        found = replace(found, rows=asked.looked_at)
    # gradients, if any, are looked at in the last frame, too
    refuse_too_few(replace(found, steps=asked.steps + asked.detail.gradients), _COUNTED)
    return found


def _judged_on_data(total: TotalProgram) -> bool:
    """Whether a scalar of every input is judged over all times: then all inputs are followed at all of them."""
    program = total.program
    judged = [gate.axes for gate in gates.gates(program)]
    judged += [program[one.position].axes for one in singular.singular(total)]
    return any(total.axis in axes for axes in judged)


class Kets(Engine):
    """Replicates of the particles of `MaximalLimit.evaluate`, step by step; f is their mean, kets are of the first."""

    def __init__(self, asked: Asked, width: float, seed: int) -> None:
        self.asked, self.request = asked, requested(asked, width, seed)
        self.replicates = [Replicate(self.request, number) for number in range(self.request.replicates)]

    def advance(self, step: int) -> None:
        """Go on to a step."""
        with one_thread():
            for replicate in self.replicates:
                while replicate.times() <= step:
                    replicate.advance()

    def _f(self) -> Array:
        return numpy.mean([replicate.f[-1] for replicate in self.replicates], axis=0)

    def outputs(self) -> Array:
        """f on all inputs, the mean over replicates."""
        return self._f()[: self.asked.count]

    def on_probes(self) -> Array:
        """f on the probes."""
        return self._f()[self.asked.probe_rows]

    def norms(self) -> dict[str, float]:
        """Norms of gradients, in the first replicate; the standard error of f."""
        several = numpy.array([replicate.f[-1] for replicate in self.replicates])
        shares = numpy.array([replicate.gates[SHARE] for replicate in self.replicates])
        stderr = standard_error(several) * widening(shares)[-1]
        return self._gradients() | {"error of f": float(numpy.sqrt((stderr**2).mean()))}

    def _gradients(self) -> dict[str, float]:
        if not self.asked.detail.gradients:
            return {}
        first, t = self.replicates[0], self.replicates[0].times() - 1
        execution = first.execution
        χ = self.asked.signal.whole(first.f[-1], t)
        with numpy.errstate(all="ignore"):
            execution.run_some(len(execution.program))
        signal, total = χ.reshape(len(χ), -1), execution.total
        rows = {name: gradient_rows(total, name, execution) for name in self.asked.trained}
        return {
            f"gradient {name}": math.sqrt(execution.parameters[name].square(found, signal))
            for name, found in rows.items()
        }

    def values(self) -> dict[str, Array]:
        """Samples of all vectors and all scalars that have a name, from the first replicate."""
        execution = self.replicates[0].execution
        return {name: self._value(execution, self.asked.net.position(name)) for name in self.asked.detail.recorded}

    def _value(self, execution: TrainingExecution, position: int) -> Array:
        array = execution.arrays[position][0]
        if execution.total.on_data[position]:
            array = array[self.asked.probe_rows]
        vector = self.asked.net[position].width is not None
        return numpy.array(array[..., : self.asked.samples] if vector else array)

    def finish(self) -> None:
        """EvaluationError where training lands on a jump, a pole or the end of a root of a scalar."""
        judge(self.request, [replicate.result() for replicate in self.replicates])

    def state(self) -> dict[str, Array]:
        """All that is needed to go on."""
        return flat({str(number): replicate.state() for number, replicate in enumerate(self.replicates)})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Back to what `state` gave."""
        held = nested(state)
        for number, replicate in enumerate(self.replicates):
            replicate.restore(held[str(number)])
