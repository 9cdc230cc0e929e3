"""Sums of updates of a matrix as operators on particles:

    ΔW_t = −Σ_{s<t} η_s (1 − λ)^(t−1−s) Q_s(G_0, …, G_s)/columns.

G_s = Σ_rows χ_row left_row ⊗ right_row is the gradient at step s.  Where Q is linear, ΔW has low rank and is kept as
its factors, exactly.  Where it is not, the mean over all pairs of particles is replaced by the mean over pairs in the
same block of K particles: memory and time M × K instead of M × M.
"""

from __future__ import annotations

from typing import Any

import numpy

from tplimits.numeric.training.columns import Array, Growing, State


class LowRankUpdate:
    """Linear updates: all factors so far, and how much of each gradient is in the matrix now."""

    def __init__(self, rows: int, columns: int, optimizer: Any) -> None:
        self.left, self.right, self._columns = Growing(rows), Growing(columns), columns
        self._optimizer = optimizer
        self._ranks: list[int] = []
        self._weights = numpy.empty(0)

    def step(self, t: int, left: Array, right: Array, lr: float, decay: float) -> None:
        """Add the update of step t from the rows of its gradient (χ in the left ones)."""
        self.left.append(left)
        self.right.append(right)
        self._ranks.append(len(left))
        coefficients = numpy.array([float(c) for c in self._optimizer.coefficients(t)])
        self._weights = decay * numpy.append(self._weights, 0.0) - lr * coefficients

    def apply(self, x: Array, transposed: bool) -> Array:
        """ΔW x, or ΔWᵀ x, for the rows of x."""
        into, out = (self.left, self.right) if transposed else (self.right, self.left)
        weights = numpy.repeat(self._weights, self._ranks) / self._columns
        found: Array = ((x @ into.rows.T) * weights) @ out.rows
        return found

    def state(self) -> State:
        """What a checkpoint holds."""
        ranks = numpy.array(self._ranks, dtype=numpy.int64)
        return {"left": self.left.state(), "right": self.right.state(), "ranks": ranks, "weights": self._weights}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.left.restore(state["left"])
        self.right.restore(state["right"])
        self._ranks = [int(r) for r in state["ranks"]]
        self._weights = numpy.array(state["weights"])


class BlockUpdate:
    """Nonlinear updates, entry by entry on the diagonal blocks."""

    def __init__(self, rows: int, columns: int, blocks: int, optimizer: Any) -> None:
        self.shape = blocks, rows // blocks, columns // blocks
        self._stepper = optimizer.stepper()
        self.states = self._stepper.start(self.shape)
        self.sum = numpy.zeros(self.shape)

    def step(self, t: int, left: Array, right: Array, lr: float, decay: float) -> None:
        """Add the update of step t from the rows of its gradient (χ in the left ones)."""
        blocks, rows, columns = self.shape
        by_row, by_column = left.reshape(-1, blocks, rows), right.reshape(-1, blocks, columns)
        if decay != 1:
            self.sum *= decay
        for block in range(blocks):  # one after the other, so that all of a block stays in the cache
            gradient = by_row[:, block].T @ by_column[:, block]
            found, moved = self._stepper.step(t, tuple(s[block] for s in self.states), gradient)
            for state, now in zip(self.states, found, strict=True):
                state[block] = now
            self.sum[block] -= lr * moved

    def apply(self, x: Array, transposed: bool) -> Array:
        """ΔW x, or ΔWᵀ x, for the rows of x."""
        blocks, _, columns = self.shape
        matrix = self.sum.swapaxes(1, 2) if transposed else self.sum
        by_block = x.reshape(len(x), blocks, -1).transpose(1, 2, 0)
        found: Array = (matrix @ by_block).transpose(2, 0, 1).reshape(len(x), -1)
        return found / columns

    def state(self) -> State:
        """What a checkpoint holds."""
        return {"sum": self.sum, **{f"state{i}": s for i, s in enumerate(self.states)}}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.sum = numpy.array(state["sum"])
        self.states = tuple(numpy.array(state[f"state{i}"]) for i in range(len(self.states)))
