"""What `MaximalLimit.evaluate` is asked for, checked before work begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy

from tplimits.errors import EvaluationError
from tplimits.limit.training.maximal import MaximalRecursion
from tplimits.limit.unroll import size_of
from tplimits.numeric.training.columns import PER_COLUMN, Array
from tplimits.numeric.training.requirements import need_numbers
from tplimits.numeric.training.settings import Settings, checked
from tplimits.program.data import with_sizes
from tplimits.program.nodes import InitialScalar, MatMul
from tplimits.program.program import Program
from tplimits.program.run_asked import RunAsked


@dataclass(frozen=True)
class Request(Settings):
    """A training run on particles; `record` names the vectors that are kept."""

    recursion: MaximalRecursion
    record: tuple[str, ...]

    @cached_property
    def bound(self) -> Program:
        """The network with all sizes."""
        return with_sizes(self.recursion.network, self.X, {})

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the outputs at one time."""
        return (self.inputs, *(size_of(self.bound, a) for a in self.recursion.total.output_axes))

    def rates_at(self, t: int) -> dict[str, float]:
        """The learning rate of every parameter at step t."""
        return {name: rate(t) for name, rate in self.rates.items()}


def request(recursion: MaximalRecursion, asked: RunAsked, record: Any) -> Request:
    """Everything checked; EvaluationError names what is wrong."""
    network = recursion.network
    common = checked(network, recursion.optimizers, asked)
    names = (record,) if isinstance(record, str) else tuple(record or ())
    for name in names:
        if network[network.position(name)].width is None:
            raise EvaluationError(f"record={name!r}: `{name}` is a scalar; kets are those of vectors.")
    found = Request(**common, recursion=recursion, record=names)
    need_numbers(recursion.optimizers)
    assert found.bound  # refused here if an axis has no size
    _scalars_given(found)
    _enough_particles(found)
    return found


def _scalars_given(asked: Request) -> None:
    """Refuse scalar parameters without a start, on which the limit depends, and vectors and matrices with one."""
    network = asked.recursion.network
    for name in asked.recursion.optimizers:
        s = network[network.initial_names[name]]
        if not isinstance(s, InitialScalar) and name in asked.given:
            raise EvaluationError(f"{name}=…: `{name}` is drawn; only scalar parameters and constants are given.")
        if isinstance(s, InitialScalar) and s.value is None and name not in asked.given:
            raise EvaluationError(
                f"the scalar parameter `{name}` has no initial value, and the limit depends on it: give {name}=…."
            )


def _enough_particles(asked: Request) -> None:
    """Refuse what cannot even take the first step: every input is a column of the first matrix it meets."""
    network, on_data = asked.recursion.network, asked.recursion.total.on_data
    depends = any(isinstance(s, MatMul) and on_data[p] for p, s in enumerate(network))
    needed = PER_COLUMN * asked.inputs
    if depends and numpy.linalg.matrix_rank(_flat(asked.X)) == asked.inputs and asked.particles < needed:
        raise EvaluationError(
            f"particles={asked.particles}: {asked.inputs} inputs are as many columns of every matrix and step; give at "
            f"least {PER_COLUMN} particles a column, {needed} for the first step alone."
        )


def _flat(X: Mapping[str, Array]) -> Array:
    return numpy.concatenate([x.reshape(len(x), -1) for x in X.values()], axis=1)
