"""One measured power of n beside the counted one, and what it tells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tplimits.regimes.classification.finite.judging import AGREES, CERTAIN, OPEN, Power, Rule, judged

#: powers are multiples of it, but for those of jumps; measured ones half of it away from a scale count as that
GAP = 1 / 4
TOLERANCE = GAP / 2


@dataclass(frozen=True)
class Coordinate:
    """One value: its power of n at the start (t = 0), or of its change after t steps, counted and measured.

    `scale` is the power that it has where all is of order 1: 0 but for values that the program multiplies by powers,
    and at the start for averages that vanish.  `error` is how far `measured` may be off, at a level that holds for all
    rows; `beside` is what is counted on the other side of ε, which gradients that fall may pass.  Scalars, unlike
    vectors, may be smaller than their scale at the start, if they are counted so.  late: whether smallness is judged,
    at the start and after the last step; spread: as in `Power`.
    """

    name: str
    t: int
    counted: Any
    measured: float
    sizes: tuple[float, ...]
    scale: Any = 0.0
    error: float = 0.0
    is_vector: bool = True
    late: bool = True
    widths: tuple[int, ...] = ()
    spread: float = 0.0
    beside: Any = None

    @property
    def difference(self) -> float:
        """Measured minus counted."""
        return self.measured - float(self.counted) if self.measured != self.counted else 0.0

    @property
    def verdict(self) -> str:
        """The measured power beside the counted one: "agrees", "grows", "vanishes", or "undecided"."""
        found = Power(self.measured, self.error, self.sizes, self.widths, self.spread)
        told = judged(found, self.counted, Rule(self.late, output=self.name == "f", gap=self.gap, errors=1))
        if told not in (AGREES, OPEN):
            return OPEN if self._is_between else told
        # the counted one is told where the next ones are off by more than the error; growth is looked for at any step
        below = self.late or float(self.counted) - float(self.scale) > TOLERANCE
        apart = abs(self.difference) if below else self.difference
        return AGREES if apart + self.error < self.gap and apart - self.error <= CERTAIN * self.gap else OPEN

    @property
    def _is_between(self) -> bool:
        """Whether gradients that pass ε at these widths explain a power."""
        ends = (float(self.counted), float(self.counted if self.beside is None else self.beside))
        return ends[0] != ends[1] and min(ends) - self.error <= self.measured <= max(ends) + self.error

    @property
    def gap(self) -> float:
        """The distance of the counted power from the next ones: behind jumps powers are halved."""
        off = float(self.counted) / GAP % 1 if self.counted > -math.inf else 0.0
        return GAP * (min(off, 1 - off) or 1)

    def side(self, measured: bool) -> int:
        """The side of the scale that the power is on: 1 above, −1 below; a measured one counts where it disagrees."""
        told = measured and self.verdict not in (AGREES, OPEN)
        # beside 0 all is growth, however few networks it was seen in: as much of it counts as is certain
        seen = self.measured - (self.error if self.counted == -math.inf else 0)
        power, scale = seen if told else float(self.counted), float(self.scale)
        # what is 0 where it is 0 naturally, as a function beyond its bend, is on no side, nor what is small beside 1
        if scale == -math.inf and told:
            return int(power > TOLERANCE)
        apart = power - scale if power != scale else 0.0
        return 0 if abs(apart) <= (TOLERANCE if told else 0) else 1 if apart > 0 else -1

    @property
    def is_decided(self) -> bool:
        """Whether the error is small enough for a verdict."""
        return self.verdict != OPEN
