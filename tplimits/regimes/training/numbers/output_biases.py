"""Scalar parameters that are added to the output: how much each of them adds to each output."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.law.unroll import size_of
from tplimits.program.network.gradient_rows import gradient_rows
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import real_array
from tplimits.program.nodes.kinds import InitialScalar

if TYPE_CHECKING:
    from tplimits.regimes.training.numbers.operator_request import TangentRequest

#: a width at which slopes, which do not depend on it, are read off
_SMALL = 2


@dataclass(frozen=True)
class OutputBiases:
    """`slopes` (members, outputs): what a unit of each scalar adds; `start` (members): values, 0 where they are drawn.

    `spreads` (members) are standard deviations at the start, 0 for values, `owners` whose members they are; `constant`
    (outputs) is added whatever the scalars are.
    """

    slopes: Array
    start: Array
    spreads: Array
    constant: Array
    owners: tuple[str, ...]

    @property
    def drawn(self) -> NDArray[numpy.bool_]:
        """Which are drawn."""
        return self.spreads > 0

    def of(self, names: Collection[str]) -> OutputBiases:
        """Those of some parameters."""
        chosen = numpy.array([name in names for name in self.owners], dtype=bool)
        owners = tuple(name for name in self.owners if name in names)
        return OutputBiases(self.slopes[chosen], self.start[chosen], self.spreads[chosen], self.constant, owners)

    @property
    def covariance(self) -> Array:
        """Of what they add to the outputs at the start."""
        chosen = self.slopes * self.spreads[:, None]
        return chosen.T @ chosen

    @property
    def kernel(self) -> Array:
        """Their part of the tangent kernel."""
        return self.slopes.T @ self.slopes

    @property
    def mean(self) -> Array:
        """What those with values add to the outputs at the start, without the constant."""
        return self.start @ self.slopes


def output_biases(asked: TangentRequest) -> OutputBiases:
    """The biases of a network, read off its shift, which is affine in them."""
    whole = asked.operator.whole.sized({a: asked.bound.size(a) for a in asked.bound.all_axes})
    count = int(numpy.prod(asked.outputs, dtype=int))
    empty = OutputBiases(numpy.zeros((0, count)), numpy.zeros(0), numpy.zeros(0), numpy.zeros(count), ())
    if len(whole.returns) == 1:
        return empty
    total = TotalProgram(whole)
    given = asked.without_biases(asked.values)
    zeros = {}
    for name in asked.operator.biases:
        s = whole[whole.initial_names[name]]
        zeros[name] = numpy.zeros([size_of(whole, a) for a in s.axes])
    one = {name: x[:1] for name, x in asked.X.items()}
    # at scalars 0 and one input: an affine function is its value there and its slopes, which no width enters
    run = Execution(
        total.program, _SMALL, 1, numpy.random.default_rng(0), asked.ratios, {**given, **zeros, **one}
    ).run()
    slopes, start, spreads = [empty.slopes], [empty.start], [empty.spreads]
    owners: list[str] = []
    for name in asked.operator.biases:
        s = whole[whole.initial_names[name]]
        assert isinstance(s, InitialScalar)
        members = zeros[name].size
        found = numpy.zeros((members, count))
        for part in gradient_rows(total, name, run):
            # one scalar may be added to an output in several places
            numpy.add.at(found, (part.family, part.output), part.left[0, :, 0])
        value: Any = asked.given.get(name, None if s.value is None else float(s.value))
        slopes.append(found)
        owners += [name] * members
        spreads.append(numpy.full(members, float(evaluate(s.law.std, run.leaves)) if value is None else 0.0))
        start.append(_values(name, 0.0 if value is None else value, zeros[name].shape))
    network = total.network
    shift, axes = run.arrays[network.returns[1]][0], network[network.returns[1]].axes
    wide = [size_of(whole, a) if a in axes else 1 for a in network[network.returns[0]].axes]
    # the shift has its axes in an order of its own, and may lack some of the outputs'
    order = [axes.index(a) for a in network[network.returns[0]].axes if a in axes]
    constant = numpy.broadcast_to(shift.transpose(order).reshape(wide), asked.outputs).ravel()
    values = numpy.concatenate(start)
    return OutputBiases(numpy.concatenate(slopes), values, numpy.concatenate(spreads), constant, tuple(owners))


def _values(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """The values of a bias at the start, one for each member of a family or one for all."""
    found = real_array(name, value)
    if found.shape not in ((), shape):
        raise EvaluationError(f"`{name}` has shape {found.shape}; it needs {shape}.")
    return numpy.broadcast_to(found, shape).ravel()
