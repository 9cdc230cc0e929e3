"""What an expansion in 1/n tells of one scalar."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tplimits.numbers.number import Number


@dataclass(frozen=True)
class Expansion:
    """One scalar at width n: E = `limit` + `root`/√n + `bias`/n + …, Var = `variance`/n + …

    Of a fluctuation √n·Avg the limit is random: its variance is `limit.variance`.
    """

    limit: Number
    bias: Number
    variance: Number
    root: Number

    def at(self, n: int) -> Number:
        """Mean and variance at width n."""
        value = float(self.limit) + float(self.root) / math.sqrt(n) + float(self.bias) / n
        error = math.hypot(self.limit.error, self.root.error / math.sqrt(n), self.bias.error / n)
        spread = self.limit.variance + float(self.variance) / n
        return Number(value, error, self.bias.method, spread, self.variance.error / n, self.bias.degrees)


@dataclass(frozen=True)
class Share:
    """What one average contributes to b and to C of a scalar."""

    bias: float
    variance: float


@dataclass(frozen=True)
class Enough:
    """The smallest widths at which a scalar is near its limit: on average over networks, and in each of them."""

    mean: int
    network: int
