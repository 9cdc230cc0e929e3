"""One network in training, or one limit: its parameters, and how they move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.loops import kernels
from tplimits.numbers.loops.machine import PRODUCT
from tplimits.program.loops.form import DATA, PARAMETER
from tplimits.program.loops.updating import SCALARS, TARGETS, WEIGHTS
from tplimits.program.network.data import inputs_of
from tplimits.program.network.losses import Loss
from tplimits.program.nodes.given import whole_from
from tplimits.regimes.training.finite.updates import updates

if TYPE_CHECKING:
    from tplimits.regimes.training.trainer.engine import SizedRecipe
    from tplimits.regimes.training.trainer.trainer import Trainer


@dataclass(frozen=True, eq=False)
class Once:
    """Inputs that are listed several times, each taken once: data drawn with replacement hold many of them.

    `rows` are the first of inputs that are alike, `which` says for every input which of them it is.  Training goes
    through all of them, as it is told to; what only looks at a network need not.
    """

    rows: NDArray[numpy.int64]
    which: NDArray[numpy.int64]

    def all_of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of `rows`, on their last axis, as those of all inputs."""
        return values if len(self.rows) == len(self.which) else numpy.take(values, self.which, axis=-1)

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all inputs, on their last axis: their sums over those that are alike, on the first of them."""
        found = numpy.zeros_like(values)
        # an indexed sum would add one of those that are alike
        numpy.add.at(numpy.moveaxis(found, -1, 0), self.rows[self.which], numpy.moveaxis(values, -1, 0))
        return found


def once(arrays: Sequence[NDArray[Any]]) -> Once:
    """What is alike in all of some arrays, which have inputs first.

    >>> found = once([numpy.array([[0, 1], [1, 1], [0, 1]])])
    >>> found.rows.tolist(), found.which.tolist(), found.all_of(numpy.array([5, 6])).tolist()
    ([0, 1], [0, 1, 0], [5, 6, 5])
    """
    known: dict[bytes, int] = {}
    rows, which = list[int](), list[int]()
    for number in range(len(arrays[0])):
        place = known.setdefault(b"".join(numpy.ascontiguousarray(a[number]).tobytes() for a in arrays), len(rows))
        if place == len(rows):
            rows.append(number)
        which.append(place)
    return Once(numpy.array(rows), numpy.array(which))


#: numbers of rows that are handed over in one call
_MOST_ROWS = 1 << 20
#: steps whose batches and scalars are found at once
_AHEAD = 4096


class Running:
    """A run of a `Trainer`: `parameters` {name: (*axes, n)} after `step` steps, in the program's scale.

    In the limit (`is_limit`) n counts particles.
    """

    def __init__(
        self,
        trainer: Trainer,
        plan: SizedRecipe,
        data: Mapping[str, Array],
        widths: Mapping[str, int],
        held: Mapping[str, Array],
        is_limit: bool,
    ) -> None:
        self.trainer, self.is_limit, self.step = trainer, is_limit, 0
        self._plan, self._widths, self._updates = plan, dict(widths), updates(plan.recipe, widths)
        self._count = len(next(iter(data.values())))
        self._kernel = plan.kernel(widths, self._count)
        self._data, self._targets = plan.data(data), plan.targets()
        self._X = data
        self._window: tuple[int, NDArray[numpy.int64], Array] | None = None
        for name, w in held.items():
            self._kernel.arrays[plan.code.parameters[name]][...] = w
        self._move_constants()
        for name, optimizer in plan.recipe.optimizers.items():
            if plan.entrywise:
                for array, state in zip(plan.code.updating.states[name], optimizer.states, strict=True):
                    self._kernel.arrays[array][...] = float(state.initial)
            else:
                self._updates.states[name] = plan.recipe.steppers[name].start((1, *held[name].shape))

    @property
    def parameters(self) -> dict[str, Array]:
        """All parameters by name, (*axes, n)."""
        moving = self._plan.recipe.schedules
        return {
            name: self._kernel.arrays[a].copy() for name, a in self._plan.code.parameters.items() if name not in moving
        }

    def _move_constants(self) -> None:
        """Scalars that move with the step to where they are in this one; compiled updates move them as well."""
        for name, schedule in self._plan.recipe.schedules.items():
            self._kernel.arrays[self._plan.code.parameters[name]][...] = schedule(self.step)

    @property
    def multiplies_matrices(self) -> bool:
        """Whether products are left to BLAS, which has threads of its own."""
        return PRODUCT in self._plan.code.training.text

    def advance(self, steps: int) -> None:
        """Go on by some steps.

        Raises EvaluationError at the step at which outputs or parameters are not finite.
        """
        left = whole_from("steps", steps, 0, EvaluationError)
        while left:
            # compiled code calls back neither to an error signal of the user's nor to updates of whole parameters
            many = self._plan.by_name and self._plan.entrywise
            done = self._several(min(left, max(1, _MOST_ROWS // self._batch()))) if many else self._one()
            left -= done
        for name, array in self._plan.code.parameters.items():
            if not numpy.isfinite(self._kernel.arrays[array]).all():
                raise EvaluationError(self._overflow(f"`{name}` overflows", self.step))

    def _several(self, steps: int) -> int:
        """Steps in one call."""
        stopped = self._kernel.train({**self._data, **self._targets}, *self._ahead(steps))
        if stopped >= 0:
            self.step += stopped
            raise EvaluationError(self._overflow("the outputs overflow", self.step))
        self.step += steps
        return steps

    def _ahead(self, steps: int) -> tuple[NDArray[numpy.int64], Array]:
        """Batches and scalars of the next steps; frames that lie close together share one look at those to come."""
        at = -1 if self._window is None else self.step - self._window[0]
        if self._window is None or at < 0 or at + steps > len(self._window[1]):
            before = 0 if self._window is None else len(self._window[1])
            # doubled at every look, so that a short run does not pay for batches of steps that nobody takes
            many = min(2 * before, _AHEAD, _MOST_ROWS // self._batch())
            rows = self._rows(max(steps, 0 if self._plan.follows_a_function else many))
            self._window, at = (self.step, rows, self._plan.scalars(self._updates, self.step, rows)), 0
        _, rows, scalars = self._window
        return rows[at : at + steps], scalars[at : at + steps]

    def _one(self) -> int:
        """One step with an error signal of the user's, or with updates that look at all entries at once."""
        rows = self._rows(1)
        data = self._signalled(rows[0])
        if self._plan.entrywise:
            stopped = self._kernel.train(data, rows, self._plan.scalars(self._updates, self.step, rows))
        else:
            # as compiled steps tell: the number of the step that failed, or −1
            stopped = -1 if numpy.isfinite(self._differentiated(data, rows[0])).all() else 0
            held = {name: w[None] for name, w in self.parameters.items()}
            with numpy.errstate(all="ignore"):
                found = self._found_gradients()
                self._updates.step(self.step, lambda name: found[name][None], held)
            for name in self._plan.recipe.optimizers:
                self._kernel.arrays[self._plan.code.parameters[name]][...] = held[name][0]
        if stopped >= 0:
            raise EvaluationError(self._overflow("the outputs overflow", self.step))
        self.step += 1
        self._move_constants()
        return 1

    def _batch(self) -> int:
        """The number of inputs of a step."""
        batches = self.trainer.batches
        return self._count if batches is None else batches.size

    def _rows(self, steps: int) -> NDArray[numpy.int64]:
        """The inputs of the next steps, (steps, batch); all of them where nobody tells which are held out."""
        loss, batches = self.trainer.loss, self.trainer.batches
        own = loss.rows if isinstance(loss, Loss) else numpy.arange(self._count)
        if batches is None:
            return numpy.broadcast_to(own, (steps, len(own)))
        return own[batches.of_steps(self.step, steps, len(own))]

    def _signalled(self, rows: NDArray[numpy.int64]) -> dict[str, NDArray[Any]]:
        """The data of a step, with its error signal where that is the user's."""
        if self._plan.by_name:
            return {**self._data, **self._targets}
        f = self._finite(self._kernel.outputs(self._data, rows))
        loss = self.trainer.loss
        χ = loss.batch(rows)(f) if isinstance(loss, Loss) else self.trainer.signal(f, self.step)
        # the loops look rows up in arrays of all inputs; the others are not read
        full = numpy.zeros((*χ.shape[1:], self._count))
        full[..., rows] = numpy.moveaxis(χ, 0, -1)
        return {**self._data, "chi": full}

    def _differentiated(self, data: Mapping[str, NDArray[Any]], rows: NDArray[numpy.int64]) -> Array:
        """Fill the gradients; f on these rows, inputs last."""
        self._kernel.arrays[SCALARS][0] = self._plan.shares(rows[None])[0]
        return self._kernel.gradients(data, rows)

    def _found_gradients(self) -> dict[str, Array]:
        return {name: self._kernel.arrays[array].copy() for name, array in self._plan.code.gradients.items()}

    def outputs(self, X: Any = None) -> Array:
        """f on the data of the run, or on others: (N, *outputs)."""
        if X is None:
            found = self._kernel.outputs(self._data, self._once.rows)
            return self._finite(self._once.all_of(found))
        inputs = self._inputs(X)
        count = len(next(iter(inputs.values())))
        return self._finite(self._kernel.outputs(self._plan.data(inputs), numpy.arange(count)))

    def gradients(self) -> dict[str, Array]:
        """The gradients ∂L/∂W of the loss on all training inputs, for every trained parameter W of the program."""
        return self.outputs_and_gradients()[1]

    def outputs_and_gradients(self) -> tuple[Array, dict[str, Array]]:
        """Both of the above, in one pass over the training inputs; those that are listed twice are taken once."""
        rows, rest, repeated, share = self._parted
        if self._plan.by_name:
            # one over the weight of all training inputs, those listed twice counted twice
            self._kernel.arrays[SCALARS][0] = share
            found = self._kernel.gradients({**self._data, **self._targets, **repeated}, rows)
        else:
            found = self._differentiated(self._signalled(rows), rows)
        gradients = self._found_gradients()
        if len(rest):
            f = numpy.empty((*found.shape[:-1], self._count))
            f[..., rows] = found
            # inputs that are held out have outputs and no gradients
            f[..., rest] = self._kernel.outputs(self._data, rest)
            found = f[..., self._once.rows]
        return self._finite(self._once.all_of(found)), gradients

    @cached_property
    def _parted(self) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], dict[str, NDArray[Any]], float]:
        """Inputs that are trained on and others, each once; the weights of all that are alike, one over their sum."""
        loss, once = self.trainer.loss, self._once
        own = loss.rows if isinstance(loss, Loss) else numpy.arange(self._count)
        trained = numpy.isin(once.rows, own)
        alike = len(once.rows) < self._count
        repeated = {WEIGHTS: once.sums(self._targets[WEIGHTS])} if alike else {}
        return once.rows[trained], once.rows[~trained], repeated, float(self._plan.shares(own[None])[0])

    @cached_property
    def _once(self) -> Once:
        """Each input once, those with different targets apart; error signals of the user's may tell any apart."""
        if not self._plan.by_name:
            return once((numpy.arange(self._count),))
        # the same input with two targets is two inputs to the loss, and so is one that is held out at one of its places
        targets = numpy.moveaxis(self._targets[TARGETS], -1, 0)
        return once((*self._X.values(), targets, self.trainer.loss.train))

    def value(self, name: str, X: Any = None) -> Array:
        """A named value: (N, *axes, n) if it depends on the data, (*axes, n) if not."""
        loops, data = self._plan.value(name), self._inputs(X)
        given = {a.name: self._kernel.arrays[self._plan.code.parameters[a.title]] for a in loops.of_role(PARAMETER)}
        given |= {a.name: numpy.moveaxis(data[a.title], 0, -1) for a in loops.of_role(DATA)}
        sizes = {**self._widths, loops.samples: len(next(iter(data.values())))}
        array = loops.names[name]
        found = kernels.run(loops, sizes, given)[array]
        extents = loops.by_name[array].extents
        return numpy.array(
            numpy.moveaxis(found, extents.index(loops.samples), 0) if loops.samples in extents else found
        )

    def _inputs(self, X: Any) -> Mapping[str, Array]:
        return self._X if X is None else inputs_of(self._plan.recipe.net, X, "X")

    def _finite(self, found: Array) -> Array:
        """Outputs, inputs first."""
        f = numpy.ascontiguousarray(numpy.moveaxis(found, -1, 0))
        if not numpy.isfinite(f).all():
            raise EvaluationError(self._overflow("the outputs overflow", self.step))
        return f

    def _overflow(self, what: str, step: int) -> str:
        where = "in the limit" if self.is_limit else f"at width {self._widths['n']}"
        why = "give a smaller lr" if step else "a value overflows, or is not defined on these inputs"
        return f"`{self.trainer.recipe.net.name}` {where}: {what} at step {step}; {why}."

    def state(self) -> dict[str, NDArray[Any]]:
        """All that a run needs to go on as if it had never stopped: arrays by name."""
        found: dict[str, NDArray[Any]] = {"step": numpy.array(self.step)}
        found |= {f"parameter {name}": w for name, w in self.parameters.items()}
        for name in self._plan.recipe.optimizers:
            for k, array in enumerate(self._plan.code.updating.states.get(name, ())):
                found[f"optimizer {name} {k}"] = self._kernel.arrays[array].copy()
            for k, state in enumerate(self._updates.states.get(name, ())):
                found[f"optimizer {name} {k}"] = state[0].copy()
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Back to a state, of this run or of one of the same shape; EvaluationError for any other."""
        own = {name: value.shape for name, value in self.state().items()}
        if not self._plan.entrywise:  # some optimizers make their states in the first step
            own = {name: shape for name, shape in own.items() if not name.startswith("optimizer ")}
        for name in {*own, *(state if self._plan.entrywise else ())}:
            if name not in own or name not in state or numpy.shape(state[name]) != own[name]:
                raise EvaluationError(f"restore(…): `{name}` does not fit this run; give what state() gave.")
        self.step = int(state["step"])
        for name in self.parameters:
            self._kernel.arrays[self._plan.code.parameters[name]][...] = state[f"parameter {name}"]
        self._move_constants()
        for name in self._plan.recipe.optimizers:
            for k, array in enumerate(self._plan.code.updating.states.get(name, ())):
                self._kernel.arrays[array][...] = state[f"optimizer {name} {k}"]
            if not self._plan.entrywise:
                held = [state[f"optimizer {name} {k}"] for k in range(len(state)) if f"optimizer {name} {k}" in state]
                self._updates.states[name] = tuple(numpy.array(s, dtype=numpy.float64)[None] for s in held)
