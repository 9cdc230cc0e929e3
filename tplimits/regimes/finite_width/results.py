"""What an expansion in 1/n tells of one scalar."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tplimits.errors import EvaluationError
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.tails import Growth
from tplimits.numbers.number import Number
from tplimits.program.nodes.entries import entries
from tplimits.program.nodes.kinds import Avg

if TYPE_CHECKING:
    from tplimits.law.state import Derivation
    from tplimits.numbers.expansion.tables import Table

#: the root of a width that no network has
_WIDEST = 1e15


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

    @property
    def fluctuation(self) -> Number:
        """C: that of θ where θ is fixed in the limit, of θ itself where √n·θ stays random."""
        return (
            Number(self.limit.variance, self.limit.variance_error, self.limit.method)
            if self.limit.variance
            else self.variance
        )

    @property
    def never_near(self) -> str:
        """Why no width brings one network within a share of the limit; empty where one does."""
        if self.limit.variance > 0:
            return f"stays random: one network is some {self.limit.variance**0.5:.3g} off its mean at every width"
        vanishes = abs(float(self.limit)) <= self.limit.error
        return "tends to 0, which nothing is near to by a share of it" if vanishes else ""


def expansions(found: Table) -> dict[str, Expansion]:
    """The expansion of every scalar, from one table."""
    numbers = {}
    for i, label in enumerate(found.labels):
        variance = found.number("covariance", i, i)
        limit = found.number("limit", i)
        if found.value.random[i]:
            limit = Number(0.0, limit.error, found.method, float(variance), variance.error, found.degrees)
            root, none = found.number("bias", i), Number(0.0, 0.0, found.method)
            numbers[label] = Expansion(limit, none, none, root)
        else:
            numbers[label] = Expansion(limit, found.number("bias", i), variance, found.number("root", i))
    return numbers


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


#: moments of normal entries above this order make the series useful at large widths only
HIGH = 8
#: where |b|/n is more of |L| than this, the next terms count; the same where C rests on high moments
_SMALL, _SMALL_WITH_TAILS = 0.1, 0.01
#: a limit below this is 0
_ZERO = 1e-9


def order_of_moments(state: Derivation) -> int:
    """The largest order of a moment of normal entries in C: twice the degree of what is averaged."""
    operands = {e.source for s in state.program if isinstance(s, Avg) for e in entries(s.operand)}
    tails = [tail(ket.expr, state.gaussians) for key, ket in state.kets.items() if key[0] in operands]
    degrees = [float(t.degree) for t in tails if t.kind is Growth.POLYNOMIAL and t.degree.is_number]
    return round(2 * max(degrees, default=0.0))


def worse_than_none(name: str, e: Expansion, n: int, order: int) -> str:
    """A warning where L + b/n may be worse than L at width n; "" elsewhere.  `order` is that of moments in C."""
    share, off = (_SMALL if order <= HIGH else _SMALL_WITH_TAILS), abs(float(e.bias)) / n
    size = abs(float(e.limit))
    if size < _ZERO:  # as large as it usually is
        size = math.sqrt(max(float(e.variance), 0.0) / n) / _SMALL
    if off <= share * size:
        return ""
    why = f" (C holds moments of order {order})" if order > HIGH else ""
    return (
        f"`{name}`: |b|/n = {off:.2g} is not small beside its limit {float(e.limit):.3g}{why}: terms of order 1/n² "
        f"count at n = {n}, and L + b/n may be worse than L."
    )


def near(e: Expansion, allowed: float) -> Enough:
    """The widths from which a mean, and one network, is within a distance of the limit."""
    mean = max(_width_above(math.sqrt(abs(float(e.bias)) / allowed)), _width_above(abs(float(e.root)) / allowed), 1)
    return Enough(mean, max(mean, _width_above(math.sqrt(max(float(e.variance), 0.0)) / allowed)))


def _width_above(root: float) -> int:
    """The smallest width that is not below a square."""
    if root > _WIDEST:
        raise EvaluationError(f"a width of {root:.3g}² is beyond any network: ask for a larger distance.")
    return math.ceil(root**2 - 1e-9)
