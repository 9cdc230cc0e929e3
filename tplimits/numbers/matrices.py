"""A trained matrix known through what it is applied to: the initial one by conditioning, and the sum of its updates.

    |W_t x⟩ = decay_t |W_0 x⟩ + (update) x

See `tplimits.numbers.conditioning` for the conditional law of W_0 x; here many columns are drawn at once.
"""

from __future__ import annotations

from typing import Protocol

import numpy

from tplimits.errors import EvaluationError
from tplimits.numbers.columns import PER_COLUMN, Array, Basis, Growing, Population, State


class Update(Protocol):
    """The sum of the updates of a matrix, as an operator on columns of particles."""

    def apply(self, x: Array, transposed: bool) -> Array:
        """The operator, or its transpose, on rows x (columns of particles)."""

    def step(self, t: int, left: Array, right: Array, lr: float, decay: float) -> None:
        """Add the update of step t from the rows of its gradient (χ in the left ones)."""

    def state(self) -> State:
        """What a checkpoint holds."""

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""


class InitialOperator:
    """A matrix of rows × columns with independent entries of variance 1/columns."""

    def __init__(self, rows: Population, columns: Population) -> None:
        self._sides = {False: (rows, columns), True: (columns, rows)}
        self.inputs = {False: Basis(columns.size), True: Basis(rows.size)}
        self.outputs = {False: Growing(rows.size), True: Growing(columns.size)}
        self._std = columns.size**-0.5

    def apply(self, x: Array, transposed: bool) -> Array:
        """W x, or Wᵀ x, for the rows of x."""
        target, source = self._sides[transposed]
        source.see(x)
        inputs, outputs = self.inputs[transposed], self.outputs[transposed]
        coordinates, left, new = inputs.new_directions(x)
        if len(new):
            # as many columns as particles would span everything: no direction would be new, and hats no longer Gaussian
            if source.least_per_column * (inputs.count + len(new)) > source.size:
                raise EvaluationError(
                    f"too few particles: {source.size} for {inputs.count + len(new)} columns of a matrix; give at "
                    f"least {PER_COLUMN} particles for every step, input and use of it, or fewer inputs or steps."
                )
            outputs.append(self._images(new, transposed, target))
            inputs.append(new)
            coordinates = numpy.concatenate([coordinates, left @ new.T], axis=1)
        return coordinates @ outputs.rows

    def _images(self, q: Array, transposed: bool, target: Population) -> Array:
        """W q for orthonormal rows q orthogonal to all earlier ones, given what is known of W and Wᵀ."""
        partners, images = self.inputs[not transposed], self.outputs[not transposed]
        fresh = target.fresh(len(q), partners) * self._std
        if not partners.count:
            return fresh
        # P (Yᵀ q): what W q is along the p_j is known from Wᵀ p_j = y_j
        return (q @ images.rows.T) @ partners.rows + fresh

    def state(self) -> State:
        """What a checkpoint holds."""
        sides = {"plain": False, "transposed": True}
        return {
            key: {"inputs": self.inputs[side].state(), "outputs": self.outputs[side].state()}
            for key, side in sides.items()
        }

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        for key, side in {"plain": False, "transposed": True}.items():
            self.inputs[side].restore(state[key]["inputs"])
            self.outputs[side].restore(state[key]["outputs"])


class TrainedMatrix:
    """W_t = decay W_0 + update."""

    def __init__(self, initial: InitialOperator, update: Update) -> None:
        self.initial, self.update, self.decay = initial, update, 1.0

    def apply(self, x: Array, transposed: bool) -> Array:
        """W_t x, or its transpose, for the rows of x."""
        image = self.initial.apply(x, transposed)
        if self.decay != 1:
            image *= self.decay
        return image + self.update.apply(x, transposed)

    def state(self) -> State:
        """What a checkpoint holds."""
        return {"initial": self.initial.state(), "update": self.update.state(), "decay": self.decay}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.initial.restore(state["initial"])
        self.update.restore(state["update"])
        self.decay = float(state["decay"])
