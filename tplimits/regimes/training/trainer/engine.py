"""What a run computes, compiled: loops of a recipe, its loss and its optimizers, on arrays of one width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.numbers.loops.training import Kernel, Training, data_of
from tplimits.program.loops.form import GRADIENT, PARAMETER, Loops
from tplimits.program.loops.lowering import forward, training
from tplimits.program.loops.signals import TARGETS, WEIGHTS, with_signal
from tplimits.program.loops.updating import FACTOR, KEEP, RATE, SCALARS, Updating
from tplimits.program.network.losses import Loss
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.optimizers.stepping import TIME

if TYPE_CHECKING:
    from tplimits.regimes.training.finite.recipe import Recipe
    from tplimits.regimes.training.finite.updates import Updates

Array = NDArray[numpy.float64]
_SHARE = ("share", "")


@dataclass(frozen=True)
class Plan:
    """A recipe for a network whose sizes are known, and its loops with a loss."""

    recipe: Recipe
    loss: Any

    @cached_property
    def loops(self) -> Loops:
        """Outputs and gradients, and the error signal where it is a loss by name."""
        found = training(self.recipe.net, self.recipe.parametrization.a_out, tuple(self.recipe.optimizers))
        return with_signal(found, self.loss) or found

    @cached_property
    def by_name(self) -> bool:
        """Whether the error signal is computed in the loops."""
        return any(a.name == TARGETS for a in self.loops.arrays)

    @cached_property
    def entrywise(self) -> bool:
        """Whether all parameters move entry by entry."""
        return all(o.is_entrywise and o.clips_gradient is None for o in self.recipe.optimizers.values())

    @cached_property
    def updating(self) -> Updating:
        """The statements of the updates."""
        found = Updating(self.loops, [_SHARE])
        if self.entrywise:
            for name, optimizer in self.recipe.optimizers.items():
                found.parameter(name, optimizer)
        return found

    @cached_property
    def training(self) -> Training:
        """What is compiled."""
        found = self.updating
        return Training(found.finished(), tuple(found.statements), max(1, len(found.scalars)))

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The arrays of parameters, by name."""
        return {a.title: a.name for a in self.loops.of_role(PARAMETER)}

    @cached_property
    def gradients(self) -> dict[str, str]:
        """The arrays of gradients, by the names of parameters."""
        return {a.title: a.name for a in self.loops.of_role(GRADIENT)}

    def value(self, name: str) -> Loops:
        """A named value."""
        return forward(self.recipe.net, (name,), self.recipe.parametrization.a_out)

    # -- what a kernel is given ---------------------------------------------------------------

    def kernel(self, widths: Mapping[str, int], inputs: int, draws: int | None = None) -> Kernel:
        """Compiled code with arrays for some widths."""
        return Kernel(self.training, widths, inputs, draws)

    def data(self, X: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
        """Inputs as they lie in memory."""
        return {a.name: data_of(X[a.title], a) for a in self.training.by_input if a.title in X}

    def targets(self) -> dict[str, NDArray[Any]]:
        """Targets and weights of a loss by name."""
        if not self.by_name:
            return {}
        loss, loops = self.loss, self.loops.by_name
        train = loss.train.reshape(-1, *[1] * (loss.targets.ndim - 1))
        targets = numpy.where(train, loss.targets, 0)
        weights = loss.weights * loss.train.reshape(-1, *[1] * (loss.weights.ndim - 1))
        return {TARGETS: data_of(targets, loops[TARGETS]), WEIGHTS: data_of(weights, loops[WEIGHTS])}

    def shares(self, rows: NDArray[numpy.int64]) -> Array:
        """One over the sum of the weights of some rows (steps, batch)."""
        if not isinstance(self.loss, Loss):
            return numpy.ones(len(rows))
        each = (self.loss.weights.reshape(len(self.loss.train), -1).sum(axis=1)) * self.loss.train
        total = each[rows].sum(axis=1)
        if not (total > 0).all():
            raise EvaluationError(
                "batches=…: all inputs of a batch have the weight 0; there is nothing to average. Give larger batches, "
                "or leave these inputs out by train=."
            )
        found: Array = 1 / total
        return found

    def scalars(self, updates: Updates, t: int, rows: NDArray[numpy.int64]) -> Array:
        """The scalars of steps t, t + 1, …, one for each row of `rows`."""
        times = numpy.arange(t, t + len(rows), dtype=numpy.float64)
        found = numpy.empty((len(rows), self.training.scalars))
        for k, entry in enumerate(self.updating.scalars):
            found[:, k] = self.shares(rows) if entry == _SHARE else self._scalar(entry, updates, times)
        return found

    def _scalar(self, entry: tuple[str, str] | Expr, updates: Updates, times: Array) -> Any:
        if isinstance(entry, Expr):
            return evaluate(entry, {TIME: times})
        word, name = entry
        e = self.recipe.exponents[name]
        if word == FACTOR:
            return updates.n0 ** float(e.d - e.a)
        if word == KEEP:
            return 1 - self.recipe.decays[name]
        assert word == RATE
        if not callable(self.recipe.rates[name].value):
            return updates.rate(name, int(times[0]))
        return [updates.rate(name, int(t)) for t in times]


__all__ = ["SCALARS", "Plan"]
