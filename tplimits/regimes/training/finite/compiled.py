"""Networks of one width in training by compiled code: many draws, an error signal called for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import ProgramError
from tplimits.program.loops.updating import SCALARS
from tplimits.program.network.data import with_sizes
from tplimits.regimes.training.finite.updates import updates
from tplimits.regimes.training.trainer.engine import SizedRecipe

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.finite.recipe import Recipe

#: entries of parameters that are moved, over draws and steps, above which compiling takes less time than it saves
_WORTH = 2_000_000


def is_worth(held: Mapping[str, Array], steps: int) -> bool:
    """Whether so much is trained that it is worth compiling."""
    return steps * sum(w.size for w in held.values()) > _WORTH


def bound(net: Program, data: Mapping[str, Array], given: Mapping[str, Any]) -> Program:
    """The network with the sizes of its data, and the constants that are given."""
    sized = with_sizes(net, data, given)
    constants = {name: value for name, value in given.items() if name in net.constants}
    return sized.bind(**constants) if constants else sized


class Compiled:
    """The same networks as `Networks` holds, moved by compiled code; None of them where a function has no loop."""

    def __init__(
        self,
        recipe: Recipe,
        net: Program,
        data: Mapping[str, Array],
        widths: Mapping[str, int],
        held: Mapping[str, Array],
    ) -> None:
        self.plan = SizedRecipe(replace(recipe, net=net), None)
        self.draws = len(next(iter(held.values())))
        self.rows = numpy.arange(len(next(iter(data.values()))))
        self.kernel = self.plan.kernel(widths, len(self.rows), self.draws)
        self.data, self.updates = self.plan.data(data), updates(self.plan.recipe, widths)
        for name, w in held.items():
            self.kernel.arrays[self.plan.code.parameters[name]][...] = w
        for name, optimizer in recipe.optimizers.items():
            for array, state in zip(self.plan.code.updating.states.get(name, ()), self._states(optimizer), strict=True):
                self.kernel.arrays[array][...] = float(state.initial)

    def _states(self, optimizer: Any) -> Any:
        return optimizer.states if self.plan.entrywise else ()

    def outputs(self, t: int) -> Array:
        """f of all draws at step t: (draws, inputs, *outputs); not finite where they overflow."""
        for name, schedule in self.plan.recipe.schedules.items():
            self.kernel.arrays[self.plan.code.parameters[name]][...] = schedule(t)
        found = []
        # one kernel for all draws, whose arrays lie one behind another
        for draw in range(self.draws):
            self.kernel.storage.select(draw)
            found.append(numpy.moveaxis(self.kernel.outputs(self.data, self.rows), -1, 0))
        return numpy.stack(found)

    def step(self, t: int, χ: Array) -> None:
        """Move every draw by its error signal (draws, inputs, *outputs)."""
        gradients: dict[str, list[Array]] = {name: [] for name in self.plan.recipe.optimizers}
        scalars = self.plan.scalars(self.updates, t, self.rows[None])
        for draw, signal in enumerate(χ):
            self.kernel.storage.select(draw)
            data = {**self.data, "chi": numpy.ascontiguousarray(numpy.moveaxis(signal, 0, -1))}
            if self.plan.entrywise:
                self.kernel.train(data, self.rows[None], scalars)
                continue
            # the share of a batch: error signals of a user are those of the whole loss
            self.kernel.arrays[SCALARS][0] = 1.0
            self.kernel.gradients(data, self.rows)
            for name, array in self.plan.code.gradients.items():
                gradients[name].append(self.kernel.arrays[array].copy())
        if not self.plan.entrywise:
            found = {name: numpy.stack(many) for name, many in gradients.items()}
            held = {name: self.kernel.arrays[self.plan.code.parameters[name]].copy() for name in found}
            self.updates.step(t, found.__getitem__, held)
            for name, w in held.items():
                self.kernel.arrays[self.plan.code.parameters[name]][...] = w


def compiled(
    recipe: Recipe,
    data: Mapping[str, Array],
    widths: Mapping[str, int],
    held: Mapping[str, Array],
    given: Mapping[str, Any],
) -> Compiled | None:
    """Compiled networks; None for programs with parts that have no loops."""
    try:
        return Compiled(recipe, bound(recipe.net, data, given), data, widths, held)
    except ProgramError:
        return None
