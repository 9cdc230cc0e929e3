"""Sums of updates of a matrix as operators on particles:

    ΔW_t = −Σ_{s<t} η_s (1 − λ)^(t−1−s) Q_s(G_0, …, G_s)/columns.

G_s = Σ_rows χ_row left_row ⊗ right_row is the gradient at step s.  Where Q is linear, ΔW has low rank and is kept as
its factors, exactly.  Where it is not, the mean over all pairs of particles is replaced by the mean over pairs in the
same block of K particles: memory and time M × K instead of M × M.

Norms that updates are divided by are exact over all pairs where Q is linear, and means over the blocks where it is not.
Means over rows and columns of G² (Adafactor) are quadratic forms in its rows: over all particles, not over a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tplimits.numbers.columns import Array, Growing, State
from tplimits.regimes.training.numbers.divisors import MatrixDivisor

if TYPE_CHECKING:
    from tplimits.program.optimizers.joint import Adafactor


class LowRankUpdate:
    """Linear updates, divided by a norm or not: all factors so far, and how much of each gradient is in the matrix.

    `products` are those of the gradients of all steps, ⟨G_s, G_t⟩ = mean over all pairs of particles of their product.
    """

    def __init__(self, rows: int, columns: int, optimizer: Any, unit: int | None = None) -> None:
        self.left, self.right, self._columns = Growing(rows), Growing(columns), columns
        self._optimizer = optimizer.entry_by_entry("matrix")
        self._divisor, self._pairs = MatrixDivisor(optimizer, rows, columns, unit), rows * columns
        self._products = numpy.empty((0, 0))
        self._ranks: list[int] = []
        self._weights = numpy.empty(0)

    def step(self, t: int, left: Array, right: Array, lr: float, decay: float) -> None:
        """Add the update of step t from the rows of its gradient (χ in the left ones)."""
        self.left.append(left)
        self.right.append(right)
        self._ranks.append(len(left))
        coefficients = numpy.array([float(c) for c in self._optimizer.coefficients(t)])
        # products of gradients cost a step as much as all earlier ones together: only norms of updates ask for them
        if self._divisor.needs_update:
            self._multiply(left, right, coefficients)
        # |Q_t|² = Σ c_s c_u ⟨G_s, G_u⟩, since Q_t = Σ c_s G_s
        share = self._divisor.share(lambda: max(float(coefficients @ self._products @ coefficients), 0.0), decay)
        self._weights = decay * numpy.append(self._weights, 0.0) - lr * share * coefficients

    def _multiply(self, left: Array, right: Array, coefficients: Array) -> None:
        """Append ⟨G_s, G_t⟩ for the steps s that count now."""
        ends = numpy.cumsum(self._ranks)
        found = numpy.zeros(len(ends))
        # without momentum the last gradient counts alone, and products with earlier ones are never asked for
        for s in numpy.flatnonzero(coefficients):
            own = slice(ends[s] - self._ranks[s], ends[s])
            # ⟨Σ a_i ⊗ b_i, Σ c_j ⊗ d_j⟩ = Σ (a_i·c_j)(b_i·d_j): no matrix of all pairs is formed
            found[s] = ((left @ self.left.rows[own].T) * (right @ self.right.rows[own].T)).sum() / self._pairs
        self._products = numpy.pad(self._products, (0, 1))
        self._products[-1] = self._products[:, -1] = found

    def apply(self, x: Array, transposed: bool) -> Array:
        """ΔW x, or ΔWᵀ x, for the rows of x."""
        into, out = (self.left, self.right) if transposed else (self.right, self.left)
        weights = numpy.repeat(self._weights, self._ranks) / self._columns
        return ((x @ into.rows.T) * weights) @ out.rows

    def state(self) -> State:
        """What a checkpoint holds."""
        ranks = numpy.array(self._ranks, dtype=numpy.int64)
        held = {"left": self.left.state(), "right": self.right.state(), "ranks": ranks, "weights": self._weights}
        return held | {"products": self._products, "kept": self._divisor.kept}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.left.restore(state["left"])
        self.right.restore(state["right"])
        self._ranks = [int(r) for r in state["ranks"]]
        self._weights = numpy.array(state["weights"])
        self._products, self._divisor.kept = numpy.array(state["products"]), float(state["kept"])


class _OnBlocks:
    """A sum of updates on the diagonal blocks, as an operator."""

    def __init__(self, rows: int, columns: int, blocks: int) -> None:
        self.shape = blocks, rows // blocks, columns // blocks
        self.sum = numpy.zeros(self.shape)
        self.states: tuple[Array, ...] = ()

    def _by_block(self, left: Array, right: Array) -> tuple[Array, Array]:
        blocks, rows, columns = self.shape
        return left.reshape(-1, blocks, rows), right.reshape(-1, blocks, columns)

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


class BlockUpdate(_OnBlocks):
    """Nonlinear updates, entry by entry, divided by a norm or not."""

    def __init__(self, rows: int, columns: int, blocks: int, optimizer: Any, unit: int | None = None) -> None:
        super().__init__(rows, columns, blocks)
        self._stepper = optimizer.entry_by_entry("matrix").stepper()
        self._divisor = MatrixDivisor(optimizer, rows, columns, unit)
        self.states = self._stepper.start(self.shape)

    def step(self, t: int, left: Array, right: Array, lr: float, decay: float) -> None:
        """Add the update of step t from the rows of its gradient (χ in the left ones)."""
        by_row, by_column = self._by_block(left, right)
        if decay != 1:
            self.sum *= decay
        # a norm of the whole update has to be known before any of it is added
        kept = numpy.empty(self.shape) if self._divisor.needs_update else None
        # asked once a step, as each call lets the initial matrix decay
        share = 0.0 if kept is not None else self._divisor.share(lambda: 0.0, decay)
        for block in range(self.shape[0]):  # one after the other, so that all of a block stays in the cache
            gradient = by_row[:, block].T @ by_column[:, block]
            found, moved = self._stepper.step(t, tuple(s[block] for s in self.states), gradient)
            for state, now in zip(self.states, found, strict=True):
                state[block] = now
            if kept is None:
                self.sum[block] -= lr * share * moved
            else:
                kept[block] = moved
        if kept is not None:
            self.sum -= lr * self._divisor.share(lambda: float(numpy.vdot(kept, kept)) / kept.size, decay) * kept

    def state(self) -> State:
        """What a checkpoint holds."""
        return super().state() | {"kept": self._divisor.kept}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        super().restore(state)
        self._divisor.kept = float(state["kept"])


class FactoredUpdate(_OnBlocks):
    """Adafactor: the states are means of G² over columns and over rows, kets of either side."""

    def __init__(self, rows: int, columns: int, blocks: int, optimizer: Adafactor) -> None:
        super().__init__(rows, columns, blocks)
        self._decay, self._eps = float(optimizer.decay), float(optimizer.eps)
        self.states = numpy.zeros(rows), numpy.zeros(columns)

    def step(self, t: int, left: Array, right: Array, lr: float, decay: float) -> None:
        """Add the update of step t from the rows of its gradient (χ in the left ones)."""
        blocks, rows, columns = self.shape
        ρ, by_row, by_column = self._decay, *self._by_block(left, right)
        seen = _mean_squares(left, right), _mean_squares(right, left)
        r, c = self.states = tuple(ρ * s + (1 - ρ) * new for s, new in zip(self.states, seen, strict=True))
        # r and c start from 0, and both carry the factor 1 − ρ^(t+1): in r c/mean r one of the two is left to take out
        unbiased = (1 - ρ ** (t + 1)) * r.mean()
        if decay != 1:
            self.sum *= decay
        # no gradient so far: 0/0 for every entry
        if unbiased == 0:
            return
        for block in range(blocks):
            gradient = by_row[:, block].T @ by_column[:, block]
            v = numpy.outer(r.reshape(blocks, rows)[block], c.reshape(blocks, columns)[block] / unbiased)
            root = numpy.sqrt(v + self._eps**2)
            self.sum[block] -= lr * numpy.divide(gradient, root, out=numpy.zeros_like(root), where=root > 0)


def _mean_squares(left: Array, right: Array) -> Array:
    """The mean over the particles β of (Σ_i left_iα right_iβ)², for every α."""
    # (Σ_i l_i r_i)² averaged over β is lᵀ (r rᵀ/M) l: over all particles, without the pairs
    gram = right @ right.T / right.shape[1]
    return numpy.maximum(((gram @ left) * left).sum(axis=0), 0.0)


def block_update(rows: int, columns: int, blocks: int, optimizer: Any, unit: int) -> BlockUpdate | FactoredUpdate:
    """The updates of a matrix on blocks; n₀ has `unit` particles."""
    if optimizer.entry_by_entry("matrix") is None:
        return FactoredUpdate(rows, columns, blocks, optimizer)
    return BlockUpdate(rows, columns, blocks, optimizer, unit)


def update_of(
    rows: int, columns: int, blocks: int, optimizer: Any, unit: int
) -> LowRankUpdate | BlockUpdate | FactoredUpdate:
    """The updates of a matrix by an optimizer; n₀ has `unit` particles."""
    entry_by_entry = optimizer.entry_by_entry("matrix")
    if entry_by_entry is not None and entry_by_entry.is_linear:
        return LowRankUpdate(rows, columns, optimizer, unit)
    return block_update(rows, columns, blocks, optimizer, unit)
