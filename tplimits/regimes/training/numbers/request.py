"""What `MaximalLimit.evaluate` is asked for, checked before work begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.law.unroll import size_of
from tplimits.program.network.data import with_sizes
from tplimits.program.network.schedules import Schedule, moving
from tplimits.program.nodes.given import names_of
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.regimes.training.numbers import moments
from tplimits.regimes.training.numbers.scalars import refuse_open_scalars
from tplimits.regimes.training.numbers.settings import Settings, checked, need_numbers, resting
from tplimits.regimes.training.numbers.singular import refuse_vanishing

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy
    from numpy.typing import NDArray

    from tplimits.program.network.run_asked import RunAsked
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.derivation.feature_learning import MaximalRecursion


@dataclass(frozen=True)
class TrainingRequest(Settings):
    """A training run on particles; `record` names the vectors that are kept."""

    recursion: MaximalRecursion
    record: tuple[str, ...]
    #: the numbers of the inputs that are looked at at a time, among them those that its step is made of; None: all
    rows: Callable[[int], NDArray[numpy.int64]] | None = None

    @cached_property
    def bound(self) -> Program:
        """The network with all sizes."""
        return with_sizes(self.recursion.network, self.X, {})

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the outputs at one time."""
        return (self.inputs, *(size_of(self.bound, a) for a in self.recursion.total.output_axes))

    @property
    def kept(self) -> dict[str, float]:
        """1 − λ of every parameter."""
        return {name: 1.0 - float(λ) for name, λ in self.recursion.weight_decay.items()}

    @property
    def drifting(self) -> bool:
        """Whether what matrices are applied to changes at rate 0, too."""
        return any(self.recursion.weight_decay.values()) or any(isinstance(v, Schedule) for v in self.given.values())

    @cached_property
    def sized(self) -> Program:
        """The total program on all inputs, with all sizes."""
        return self.recursion.total.sized(self.X)

    @cached_property
    def squares_without_error(self) -> dict[str, NDArray[numpy.bool_]]:
        """At which inputs a step averages squares whose mean over particles has no error, with the words for it."""
        return moments.squares_without_error(self)

    def rates_at(self, t: int) -> dict[str, float]:
        """The learning rate of every parameter at step t."""
        return {name: rate(t) for name, rate in self.rates.items()}


def request(recursion: MaximalRecursion, asked: RunAsked, record: Any) -> TrainingRequest:
    """Everything checked; EvaluationError names what is wrong."""
    network, given = moving(recursion.network, asked.given)
    common = checked(network, recursion.optimizers, replace(asked, given=given))
    names = () if record is None else names_of("record", record, EvaluationError)
    for name in names:
        if network[network.position(name)].width is None:
            raise EvaluationError(f"record={name!r}: `{name}` is a scalar; kets are those of vectors.")
    if not names:  # what is not recorded and no output rests on need not be finite
        network = network.returned
    need_numbers(recursion.optimizers)
    optimizers = resting(recursion.optimizers, common["rates"], common["steps"])
    # the total program and its gradients stay with a recursion: one that has not changed is not made again
    if network is not recursion.network or optimizers != recursion.optimizers:
        recursion = replace(recursion, network=network, optimizers=optimizers)
    found = TrainingRequest(**common, recursion=recursion, record=names)
    refuse_vanishing(recursion.total, recursion.optimizers, found.rates, found.steps)
    assert found.bound  # refused here if an axis has no size
    _scalars_given(found)
    moments.require(found)
    return found


def _scalars_given(asked: TrainingRequest) -> None:
    """Refuse scalar parameters without a start, on which the limit depends, and vectors and matrices with one."""
    network = asked.recursion.network
    refuse_open_scalars(network, asked.given)
    for name in asked.recursion.optimizers:
        s = network[network.initial_names[name]]
        if not isinstance(s, InitialScalar) and name in asked.given:
            raise EvaluationError(f"{name}=…: `{name}` is drawn; only scalar parameters and constants are given.")
