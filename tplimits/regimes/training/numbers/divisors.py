"""What normalised and clipped updates are divided by, on particles: `tplimits.regimes.training.derivation.norms` has
the formulas.

Numbers of particles stand for widths: sums over entries are divided by powers of the number of particles of n₀.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer


def share(optimizer: Optimizer, update: Callable[[], float], weight: Callable[[], float]) -> float:
    """1/ν from the squares of |Q| and |w|, whichever is needed; 0 where ν is 0, since then nothing moves."""
    if optimizer.divides_by is None:
        return 1.0
    return inverse(optimizer, update() if optimizer.divides_by == "update" else weight())


def inverse(optimizer: Optimizer, square: float) -> float:
    """1/ν for the square of a norm; 0 where ν is 0."""
    ν = float(optimizer.divisor(math.sqrt(max(square, 0.0))))
    return 1 / ν if ν > 0 else 0.0


class MatrixDivisor:
    """1/ν of one matrix of rows × columns particles, where n₀ has `unit` of them."""

    def __init__(self, optimizer: Optimizer, rows: int, columns: int, unit: int | None = None) -> None:
        self._optimizer, unit = optimizer, unit or columns
        self._entries, self._initial = rows * columns / unit**2, rows / unit
        self.kept = 1.0

    @property
    def needs_update(self) -> bool:
        """Whether the size of the update is asked for."""
        return self._optimizer.divides_by == "update"

    def share(self, mean_square: Callable[[], float], decay: float) -> float:
        """1/ν of this step from the mean of Q²; the initial matrix then decays."""
        # the norm before this step's decay: it is the weight that the update is divided by now
        initial = self.kept**2 * self._initial
        self.kept *= decay
        return share(self._optimizer, lambda: self._entries * mean_square(), lambda: initial)
