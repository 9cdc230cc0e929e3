"""One network in training, or one limit: its parameters, and how they move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.loops import arrays
from tplimits.program.loops.form import DATA, GRADIENT, PARAMETER, Loops
from tplimits.program.network.data import inputs_of
from tplimits.program.network.losses import Loss
from tplimits.program.nodes.given import whole_from
from tplimits.regimes.training.finite.updates import updates

if TYPE_CHECKING:
    from tplimits.regimes.training.trainer.trainer import Plan, Trainer

Array = NDArray[numpy.float64]


class Running:
    """A run of a `Trainer`: `parameters` {name: (*axes, n)} after `step` steps, in the program's scale.

    In the limit n counts particles.
    """

    def __init__(
        self,
        trainer: Trainer,
        plan: Plan,
        data: Mapping[str, Array],
        widths: Mapping[str, int],
        held: dict[str, Array],
        is_limit: bool,
    ) -> None:
        self.trainer, self.is_limit, self.step = trainer, is_limit, 0
        self._plan, self._data, self._widths = plan, data, dict(widths)
        self._held = {name: w[None] for name, w in held.items()}
        self._updates = updates(plan.recipe, widths)
        for name, stepper in plan.recipe.steppers.items():
            self._updates.states[name] = stepper.start(self._held[name].shape)

    @property
    def parameters(self) -> dict[str, Array]:
        """All parameters by name, (*axes, n)."""
        return {name: w[0] for name, w in self._held.items()}

    def advance(self, steps: int) -> None:
        """Go on by some steps.

        Raises EvaluationError at the step at which outputs or parameters are not finite.
        """
        for _ in range(whole_from("steps", steps, 0, EvaluationError)):
            found = self._gradients(self._rows(), self.step)
            gradients = {name: g[None] for name, g in found.items()}
            with numpy.errstate(all="ignore"):
                self._updates.step(self.step, gradients.__getitem__, self._held)
            self.step += 1
        for name, w in self._held.items():
            if not numpy.isfinite(w).all():
                raise EvaluationError(self._overflow(f"`{name}` overflows"))

    def outputs(self, X: Any = None) -> Array:
        """f on the data of the run, or on others: (N, *outputs)."""
        return self._outputs(self._inputs(X))

    def gradients(self) -> dict[str, Array]:
        """The gradients ∂L/∂W of the loss on all training inputs, for every trained parameter W of the program."""
        loss = self.trainer.loss
        return self._gradients(loss.rows if isinstance(loss, Loss) else None, self.step)

    def value(self, name: str, X: Any = None) -> Array:
        """A named value: (N, *axes, n) if it depends on the data, (*axes, n) if not."""
        loops = self._plan.value(name)
        found = self._run(loops, self._inputs(X))[loops.names[name]]
        return self._inputs_first(loops, loops.names[name], found)

    # -- states -------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """All that a run needs to go on as if it had never stopped: arrays by name."""
        found: dict[str, NDArray[Any]] = {"step": numpy.array(self.step)}
        found |= {f"parameter {name}": w[0].copy() for name, w in self._held.items()}
        for name, states in self._updates.states.items():
            found |= {f"optimizer {name} {k}": s[0].copy() for k, s in enumerate(states)}
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Back to a state, of this run or of one of the same shape; EvaluationError for any other."""
        own = self.state()
        for name in {*own, *state}:
            if name not in own or name not in state or numpy.shape(state[name]) != own[name].shape:
                raise EvaluationError(f"restore(…): `{name}` does not fit this run; give what state() gave.")
        self.step = int(state["step"])
        for name in self._held:
            self._held[name] = numpy.array(state[f"parameter {name}"], dtype=numpy.float64)[None]
        for name, states in self._updates.states.items():
            self._updates.states[name] = tuple(
                numpy.array(state[f"optimizer {name} {k}"], dtype=numpy.float64)[None] for k in range(len(states))
            )

    # -- loops --------------------------------------------------------------------------------

    def _rows(self) -> NDArray[numpy.int64] | None:
        """The inputs of this step; None for all, where held-out inputs are nobody's to tell."""
        loss = self.trainer.loss
        return loss.rows_at(self.step, self.trainer.batches) if isinstance(loss, Loss) else None

    def _inputs(self, X: Any) -> Mapping[str, Array]:
        if X is None:
            return self._data
        found = inputs_of(self._plan.recipe.net, X, "X")
        return found

    def _run(
        self, loops: Loops, data: Mapping[str, Array], more: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        given: dict[str, Any] = dict(more or {})
        for a in loops.arrays:
            if a.role == PARAMETER:
                given[a.name] = self._held[a.title][0]
            elif a.role == DATA and a.title in data:
                given[a.name] = numpy.moveaxis(data[a.title], 0, -1).astype(numpy.int64 if a.whole else numpy.float64)
        sizes = {**self._widths, loops.samples: len(next(iter(data.values())))}
        return arrays.run(loops, sizes, given)

    def _outputs(self, data: Mapping[str, Array]) -> Array:
        found = self._run(self._plan.phases[0], data)["f"]
        f = numpy.ascontiguousarray(numpy.moveaxis(found, -1, 0))
        if not numpy.isfinite(f).all():
            raise EvaluationError(self._overflow("the outputs overflow"))
        return f

    def _gradients(self, rows: NDArray[numpy.int64] | None, t: int) -> dict[str, Array]:
        data = self._data if rows is None else {name: x[rows] for name, x in self._data.items()}
        first, second = self._plan.phases
        found = self._run(first, data)
        f = numpy.moveaxis(found["f"], -1, 0)
        if not numpy.isfinite(f).all():
            raise EvaluationError(self._overflow("the outputs overflow"))
        loss = self.trainer.loss
        χ = self.trainer.signal(f, t) if rows is None else loss.batch(rows)(f)
        found = self._run(second, data, {**found, "chi": numpy.moveaxis(χ, 0, -1)})
        return {a.title: found[a.name] for a in second.arrays if a.role == GRADIENT}

    def _inputs_first(self, loops: Loops, name: str, found: Array) -> Array:
        extents = loops.by_name[name].extents
        found = numpy.moveaxis(found, extents.index(loops.samples), 0) if loops.samples in extents else found
        return numpy.array(found)

    def _overflow(self, what: str) -> str:
        where = "in the limit" if self.is_limit else f"at width {self._widths['n']}"
        return f"`{self.trainer.recipe.net.name}` {where}: {what} at step {self.step}; give a smaller lr."
