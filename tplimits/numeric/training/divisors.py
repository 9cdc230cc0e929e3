"""What normalised and clipped updates are divided by at infinite width (Yang & Littwin, Sec. 2.10.2).

‖Q_t‖ and ‖w_t‖ at finite width grow like n₀^e and n₀^(e−b), n₀ the width that is read out; what is left in the limit is

    matrices   |Q|² = (rows · columns/n₀²) E E□ Q²,        |w|² = (1 − λ)^(2t) rows/n₀,
    vectors    |Q|² = (width/n₀) Σ_axes E Q²,              |w|² = (width/n₀) Σ_axes E w_t²,
    scalars    |Q|² = Σ_axes Q²,                           |w|² = Σ_axes w_t².

Updates of a matrix are smaller than W_0 by a power of n in this norm, so that W_0 alone counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tplimits.program.optimizers.recursion import Optimizer


def share(optimizer: Optimizer, update: Callable[[], float], weight: Callable[[], float]) -> float:
    """1/ν from the squares of |Q| and |w|, whichever is needed; 0 where ν is 0, since then nothing moves."""
    if optimizer.divides_by is None:
        return 1.0
    square = update() if optimizer.divides_by == "update" else weight()
    ν = float(optimizer.divisor(math.sqrt(square)))
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
        initial = self.kept**2 * self._initial
        self.kept *= decay
        return share(self._optimizer, lambda: self._entries * mean_square(), lambda: initial)
