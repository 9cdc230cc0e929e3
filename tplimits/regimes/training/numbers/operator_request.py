"""What `TangentLimit.evaluate` is asked for, checked and read before work begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx
import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.law.unroll import size_of
from tplimits.program.network.data import inputs_of, with_sizes
from tplimits.program.network.schedules import Rate, Schedule, as_data, moving, parted, path, scheduled
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.given import real_array
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector
from tplimits.regimes.training.derivation.operator import TangentOperator, derive_tangent
from tplimits.regimes.training.numbers.settings import Settings, checked, need_numbers, resting

if TYPE_CHECKING:
    from tplimits.program.network.run_asked import RunAsked
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer


@dataclass(frozen=True)
class Group:
    """Parameters with one optimizer, rate and decay."""

    optimizer: Optimizer
    rate: Rate
    names: tuple[str, ...]


@dataclass(frozen=True)
class TangentRequest(Settings):
    """A training run in the operator regime; `f0` holds the outputs at the start, or None to draw them.

    Under weight decay `f0` may be the whole path of f^dec, (steps + 1, inputs, *outputs).
    """

    operator: TangentOperator
    f0: Array | None
    sampling: Mapping[str, Any]
    #: inputs of the network that move with the step
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The parameters that have the same optimizer, rate and decay; each alone where a norm divides."""
        found: dict[tuple[Any, ...], Group] = {}
        for name, optimizer in self.operator.optimizers.items():
            # a norm is that of one parameter, the kernel of a group the sum over it
            alone = None if optimizer.divides_by is None else name
            key = (optimizer, self.rates[name], self.operator.weight_decay[name], alone)
            names = found[key].names if key in found else ()
            found[key] = Group(optimizer, self.rates[name], (*names, name))
        return tuple(found.values())

    def ratio(self, width: str) -> float:
        """A width over that which is read out."""
        return self.ratios.get(width, 1.0) / self.ratios.get(self.bound.output_width, 1.0)

    def columns(self, name: str) -> float:
        """Columns of a matrix over n₀, 1 for what is no matrix."""
        if name in self.operator.biases:
            return 1.0
        s = self.bound[self.bound.initial_names[name]]
        return self.ratio(s.columns) if isinstance(s, InitialMatrix) else 1.0

    def weight_square(self, name: str) -> float:
        """|w|² at the start for a matrix or a vector: the sum of squares over n₀^(2e − 2b)."""
        s = self.bound[self.bound.initial_names[name]]
        if isinstance(s, InitialMatrix):
            return self.ratio(s.rows)
        assert isinstance(s, InitialVector)
        # E w² of an entry; numbers of entries along axes do not grow
        mean, std = (float(evaluate(value, {})) for value in (s.law.mean, s.law.std))
        return math.prod(size_of(self.bound, a) for a in s.axes) * self.ratio(s.over) * (mean**2 + std**2)

    @cached_property
    def bound(self) -> Program:
        """The readout with all sizes."""
        return with_sizes(self.operator.network, self.X, self.given, self.operator.infinite)

    @cached_property
    def values(self) -> dict[str, Any]:
        """Constants, and values of scalar parameters, by name; sizes are in `bound`."""
        return {name: value for name, value in self.given.items() if name not in self.bound.all_axes}

    def without_biases(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What of it the readout knows, which output biases are added to."""
        return {name: value for name, value in given.items() if name not in self.operator.biases}

    @property
    def outputs(self) -> tuple[int, ...]:
        """The sizes of the output axes."""
        return tuple(size_of(self.bound, a) for a in self.bound[self.bound.returns[0]].axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the outputs at one time."""
        return (self.inputs, *self.outputs)

    @property
    def is_drifting(self) -> bool:
        """Whether outputs change without training: weights shrink, or constants move."""
        return any(self.operator.weight_decay.values()) or bool(self.schedules)

    def kept(self, name: str) -> float:
        """1 − λ of a parameter."""
        return 1.0 - self.operator.weight_decay[name]

    @property
    def times(self) -> int:
        """At how many times kets are different: initial weights have other multiples, or constants other values."""
        return self.steps + 1 if self.is_drifting else 1

    def scales(self, name: str) -> Array:
        """(1 − λ)^t of a parameter for each of them."""
        return self.kept(name) ** numpy.arange(self.times, dtype=numpy.float64)

    def at_all_times(self) -> dict[str, Array]:
        """The data of the network on multiples of its weights: all inputs at time 0, then all at time 1, …

        Constants that move are data as well.
        """
        decayed, groups = self.operator.decayed, self.operator.shrinking.values()
        multiples = {s: self.scales(names[0]) for s, names in zip(decayed.scales, groups, strict=True)}
        data = {name: numpy.concatenate([x] * self.times) for name, x in self.X.items()}
        # all inputs of a time have its constants: data are ordered by time first
        data |= {name: numpy.repeat(path(s, self.steps), self.inputs) for name, s in self.schedules.items()}
        return {**{s: numpy.repeat(values, self.inputs) for s, values in multiples.items()}, **data}


def tangent_request(operator: TangentOperator, asked: RunAsked, f0: Any, silent: bool = False) -> TangentRequest:
    """Everything checked; EvaluationError names what is wrong.

    Networks that are `silent` without training have the outputs `f0` at all times, and no others to draw.
    """
    operator, asked, schedules = _scheduled(operator, asked)
    common = checked(operator.network, operator.optimizers, asked)
    given = common["given"]
    sampling = {"draws": given.pop("draws")} if "draws" in given else {}
    _known(operator.whole, given)
    need_numbers(operator.optimizers)
    optimizers = FrozenDict(resting(operator.optimizers, common["rates"], common["steps"]))
    operator = operator if optimizers == operator.optimizers else replace(operator, optimizers=optimizers)
    start = None if f0 is None else real_array("f0", f0)
    found = TangentRequest(**common, operator=operator, f0=start, sampling=sampling, schedules=schedules)
    if start is not None and start.ndim == 0:
        times = (found.times,) if silent and found.is_drifting else ()
        found = replace(found, f0=numpy.full((*times, *found.shape), float(start)))
    _fits(found)
    return found


def _scheduled(operator: TangentOperator, asked: RunAsked) -> tuple[TangentOperator, RunAsked, dict[str, Schedule]]:
    """The operator with constants that move as data, which start at their first values."""
    network, given = moving(operator.whole, asked.given)
    schedules, rest = parted(network, given)
    if not schedules:
        return operator, asked, {}
    X = inputs_of(operator.network, asked.X, "X")
    _refuse_outside(network)
    recipe = (operator.optimizers, operator.weight_decay, operator.infinite, operator.assumed)
    found = derive_tangent(as_data(network), *recipe)
    count = len(next(iter(X.values())))
    # data have inputs first; the values of later times come in `at_all_times`
    first = {name: numpy.full(count, schedule(0)) for name, schedule in schedules.items()}
    return found, replace(asked, X={**first, **X}, given=rest), schedules


def _refuse_outside(network: Program) -> None:
    """EvaluationError where a constant that moves stands in what is added to the readout."""
    for name, position in scheduled(network).items() if len(network.returns) > 1 else ():
        if networkx.has_path(network.graph, position, network.returns[1]):
            raise EvaluationError(
                f"{name}=…: `{name}` stands in what is added to the readout, which is read once in the operator "
                "regime: give a number, or let it move inside the readout vector alone."
            )


def _known(network: Program, given: Mapping[str, Any]) -> None:
    data = {network[p].name for p in network.inputs}
    scalars = {s.name for s in network if isinstance(s, InitialScalar)} - data
    known = {*network.constants, *network.all_axes, *scalars}
    for name in given:
        if name not in known:
            has = ", ".join(sorted({*network.constants, *scalars})) or "none"
            raise EvaluationError(f"`{name}` is no constant of `{network.name}`; it has {has}.")


def _fits(asked: TangentRequest) -> None:
    """Refuse f0 of another shape."""
    if asked.f0 is None:
        return
    path = (asked.steps + 1, *asked.shape)
    if asked.f0.shape == asked.shape or (asked.is_drifting and asked.f0.shape == path):
        return
    also = f", or {path} for the path of f^dec" if asked.is_drifting else ""
    raise EvaluationError(
        f"f0 has shape {asked.f0.shape}; the outputs of {asked.inputs} inputs have {asked.shape}{also}."
    )
