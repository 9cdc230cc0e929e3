"""What a run computes, compiled: loops of a recipe, its loss and its optimizers, on arrays of one width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.loops.training import Kernel, Training, data_of
from tplimits.program.loops.form import GRADIENT, PARAMETER, Loops
from tplimits.program.loops.lowering import forward, training
from tplimits.program.loops.updating import FACTOR, KEEP, NEXT, RATE, TARGETS, WEIGHTS, Updating, kind_of, with_signal
from tplimits.program.network.losses import Loss
from tplimits.program.network.schedules import scheduled
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.optimizers.stepping import TIME

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.finite.recipe import Recipe
    from tplimits.regimes.training.finite.updates import Updates

_SHARE = ("share", "")


@dataclass(frozen=True)
class Code:
    """What is compiled, the same for all runs of a network with these optimizers and a loss of this kind.

    `loops` are outputs and gradients, and the error signal where it is a loss by name; `updating` the statements of the
    updates.
    """

    loops: Loops
    updating: Updating
    training: Training

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The arrays of parameters, by name."""
        return {a.title: a.name for a in self.loops.of_role(PARAMETER)}

    @cached_property
    def gradients(self) -> dict[str, str]:
        """The arrays of gradients, by the names of parameters."""
        return {a.title: a.name for a in self.loops.of_role(GRADIENT)}


# Networks are traced, lowered and written once in a process: recordings of many seeds and widths, one call each, and
# parts of recordings that other processes make start at no cost.
@lru_cache(maxsize=64)
def _code(
    net: Program, a_out: Expr, optimizers: tuple[tuple[str, Optimizer], ...], kind: tuple[str, float] | None
) -> Code:
    loops = training(net, a_out, tuple(name for name, _ in optimizers))
    loops = with_signal(loops, kind) or loops
    updating = Updating(loops, [_SHARE])
    # updates that look at all entries of a parameter are made outside, from gradients that the loops leave
    if _entrywise(o for _, o in optimizers):
        for name, optimizer in optimizers:
            updating.parameter(name, optimizer)
        for name in scheduled(net):
            updating.scheduled(name)
    asked = Training(updating.finished(), tuple(updating.statements), max(1, len(updating.scalars)))
    return Code(loops, updating, asked)


@lru_cache(maxsize=256)
def _value(net: Program, name: str, a_out: Expr) -> Loops:
    return forward(net, (name,), a_out)


def _entrywise(optimizers: Iterable[Optimizer]) -> bool:
    return all(o.is_entrywise and o.clips_gradient is None for o in optimizers)


@dataclass(frozen=True)
class SizedRecipe:
    """A recipe for a network whose sizes are known, and its loops with a loss."""

    recipe: Recipe
    loss: Any

    @cached_property
    def code(self) -> Code:
        """What is compiled."""
        recipe = self.recipe
        return _code(recipe.net, recipe.parametrization.a_out, tuple(recipe.optimizers.items()), kind_of(self.loss))

    @cached_property
    def by_name(self) -> bool:
        """Whether the error signal is computed in the loops."""
        return any(a.name == TARGETS for a in self.code.loops.arrays)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The sizes of the outputs of an input."""
        return tuple(self.code.loops.extents[e] or 1 for e in self.code.loops.by_name["f"].extents[:-1])

    @cached_property
    def entrywise(self) -> bool:
        """Whether all parameters move entry by entry."""
        return _entrywise(self.recipe.optimizers.values())

    def value(self, name: str) -> Loops:
        """A named value."""
        return _value(self.recipe.net, name, self.recipe.parametrization.a_out)

    def kernel(self, widths: Mapping[str, int], inputs: int, draws: int | None = None) -> Kernel:
        """Compiled code with arrays for some widths."""
        return Kernel(self.code.training, widths, inputs, draws)

    def data(self, X: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
        """Inputs as they lie in memory."""
        return {a.name: data_of(X[a.title], a) for a in self.code.training.by_input if a.title in X}

    def targets(self) -> dict[str, NDArray[Any]]:
        """Targets and weights of a loss by name."""
        if not self.by_name:
            return {}
        loss, loops = self.loss, self.code.loops.by_name
        train = loss.train.reshape(-1, *[1] * (loss.targets.ndim - 1))
        # targets of inputs that are held out may be NaN, and NaN times the weight 0 is NaN
        targets = numpy.where(train, loss.targets, 0)
        weights = loss.weights * loss.train.reshape(-1, *[1] * (loss.weights.ndim - 1))
        return {TARGETS: data_of(targets, loops[TARGETS]), WEIGHTS: data_of(weights, loops[WEIGHTS])}

    @cached_property
    def _weight(self) -> Array | None:
        """The weight of every input; None where all are 1."""
        each = (self.loss.weights.reshape(len(self.loss.train), -1).sum(axis=1)) * self.loss.train
        return None if (each[self.loss.train] == 1).all() else each

    def shares(self, rows: NDArray[numpy.int64]) -> Array:
        """One over the sum of the weights of some rows (steps, batch)."""
        if not isinstance(self.loss, Loss):
            return numpy.ones(len(rows))
        # all alike: the sum of the weights is the number of rows
        if self._weight is None:
            return numpy.full(len(rows), 1 / rows.shape[1])
        total = self._weight[rows].sum(axis=1)
        if not (total > 0).all():
            raise EvaluationError(
                "batches=…: all inputs of a batch have the weight 0; there is nothing to average. Give larger batches, "
                "or leave these inputs out by train=."
            )
        return 1 / total

    def scalars(self, updates: Updates, t: int, rows: NDArray[numpy.int64]) -> Array:
        """The scalars of steps t, t + 1, …, one for each row of `rows`."""
        found = numpy.empty((len(rows), self.code.training.scalars))
        for k, entry in enumerate(self.code.updating.scalars):
            found[:, k] = self.shares(rows) if entry == _SHARE else self._scalar(entry, updates, t, len(rows))
        return found

    def _scalar(self, entry: tuple[str, str] | Expr, updates: Updates, t: int, steps: int) -> Any:
        if isinstance(entry, Expr):
            return evaluate(entry, {TIME: numpy.arange(t, t + steps, dtype=numpy.float64)})
        word, name = entry
        if word == NEXT:
            return [self.recipe.schedules[name](s + 1) for s in range(t, t + steps)]
        e = self.recipe.exponents[name]
        if word == FACTOR:
            return updates.n0 ** float(e.d - e.a)
        if word == KEEP:
            decay = self.recipe.decays[name]
            # a number is broadcast over all steps; a function of the user's is asked step by step
            return [1 - decay(s) for s in range(t, t + steps)] if callable(decay.value) else 1 - decay(t)
        assert word == RATE
        if not callable(self.recipe.rates[name].value):
            return updates.rate(name, t)
        return [updates.rate(name, s) for s in range(t, t + steps)]

    @cached_property
    def follows_a_function(self) -> bool:
        """Whether something is a function of the user's, which nobody may ask for steps beyond the last."""
        recipe = self.recipe
        return bool(recipe.schedules) or any(
            callable(rate.value) for rate in (*recipe.rates.values(), *recipe.decays.values())
        )
