"""In which networks a value moves: gates may be shut in a share of them, relu(⟨y²⟩ − 1) in half.

A gate is a function of averages, which are normal about their limits with a spread of 1/√n.  So it opens in a share

    Φ(a − δ √n)

of networks of width n, with a its place on the scale of fluctuations, and δ its distance at n = ∞ in spreads.  At
δ = 0 the share stays: in the limit too the value is random and not 0, and its size is that in networks in which it
moves.  At δ > 0, relu(⟨y²⟩ − 2), the share falls to 0, and with it the value.  No size of the share tells them apart,
for 1 % may stay: what tells is whether it falls.

The score test of δ = 0 is that of a trend in √n (Cochran 1954, Armitage 1955), whatever distribution function stands
for Φ.  A share falls if it does so at a level, which is the probability to take a gate for shut that is not; skewness
of averages moves shares by order 1/√n, which takes some 10⁵ networks to be seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from scipy.special import ndtri

from tplimits.arrays import Array

#: sizes below are those of sums that cancel exactly
ROUNDING = 1e-12
#: networks that move at a width, for the scatter of sizes
_LEAST = 2


@dataclass(frozen=True)
class Moving:
    """The sizes of a value in networks of each width that are not 0, and how many were drawn there."""

    widths: tuple[int, ...]
    sizes: tuple[Array, ...]
    drawn: tuple[int, ...]

    @classmethod
    def of(cls, widths: Sequence[int], values: Sequence[Array]) -> Moving:
        """From the values of all networks of each width."""
        sizes = [size(v) for v in values]
        return cls(tuple(widths), tuple(s[s > 0] for s in sizes), tuple(map(len, sizes)))

    @property
    def trend(self) -> float:
        """How far the share falls or rises with √n, in standard errors of shares that are the same at all widths."""
        many, moving = numpy.array(self.drawn, dtype=float), numpy.array([len(s) for s in self.sizes], dtype=float)
        share = moving.sum() / many.sum()
        x = numpy.sqrt(numpy.array(self.widths, dtype=float))
        x = x - (many * x).sum() / many.sum()
        # given how many move in all, these are drawn without replacement
        variance = share * (1 - share) * (many * x * x).sum() * many.sum() / max(many.sum() - 1, 1)
        return float((x * moving).sum()) / math.sqrt(variance) if variance > 0 else 0.0

    def fitted(self, level: float, at_zero: bool) -> tuple[tuple[int, ...], list[list[float]], bool]:
        """Widths and sizes for a fit, all empty where the value is 0 in the limit, and whether that is certain.

        at_zero: it is counted to be 0, beside which any size is growth.  So there a share that seems to fall is left
        undecided, not only one that does so at the level, and so is any that is seen at one width alone.
        """
        enough = [(n, list(s)) for n, s in zip(self.widths, self.sizes, strict=True) if len(s) >= _LEAST]
        trend = self.trend
        if trend < ndtri(level) or not any(map(len, self.sizes)) or (at_zero and len(enough) < len(self.widths)):
            return self.widths, [[] for _ in self.widths], True
        if len(enough) < 2:
            return self.widths, [[] for _ in self.widths], False
        widths, sizes = zip(*enough, strict=True)
        return widths, list(sizes), not (at_zero and trend < 0)


def size(values: Array) -> Array:
    """The root mean square of the entries of each network; what is rounding error is zero."""
    inside = tuple(range(1, values.ndim))
    # of networks that have run away squares overflow before the entries do
    largest = numpy.max(numpy.abs(values), axis=inside, initial=1.0)
    found: Array = largest * numpy.sqrt(numpy.mean((values.T / largest).T ** 2, axis=inside))
    return numpy.where(found > ROUNDING, found, 0.0)
