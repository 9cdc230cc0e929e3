"""b and C against networks of finite width (`tplimits.sampling.orders`).

Of n (θ_n − L) the part of first order is taken off, whose mean is zero: its noise would grow with n.  It is found at
the normal variables that the matrices of each network were made of (`tplimits.numbers.expansion.coupled`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import CheckError
from tplimits.law.observables import observables
from tplimits.program.nodes.given import by_name
from tplimits.sampling.claims import Claim, on_one_number
from tplimits.sampling.controls import Controlled
from tplimits.sampling.orders import (
    SERIES,
    WIDTHS,
    OfOrders,
    bias_claim,
    bias_name,
    confirmed_by_wider,
    covariance_claim,
    parsed,
    root_name,
)
from tplimits.sampling.powers import layer_series
from tplimits.sampling.sample import Derived, Draws, Sampler
from tplimits.sampling.verdict import Verdict, concluded
from tplimits.sampling.widths import sampled_widths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tplimits.numbers.expansion.tables import Table
    from tplimits.regimes.finite_width.limit import FiniteWidthLimit
    from tplimits.regimes.protocol import CheckAsked

#: a variance below this is that of what does not fluctuate
_FIXED = 1e-12


def spread_names(table: Table) -> tuple[str, ...]:
    """What draws of √n θ are called: what stays random is √n · … itself."""
    return tuple(x if r else root_name(x) for x, r in zip(table.labels, table.value.random, strict=True))


@dataclass(frozen=True)
class Scaled(Derived):
    """Draws of n (θ − L) and of √n θ."""

    inner: Controlled

    @property
    def labels(self) -> tuple[str, ...]:
        """b(θ) and √n θ for every scalar."""
        return (*map(bias_name, self.inner.inner.labels), *spread_names(self.inner.table))

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""
        table = self.inner.table
        one, other = numpy.split(self.inner.run(n, index, draws).values, 2, axis=1)
        limit = table.value.limit
        off = n * (one - limit) - n**0.5 * table.value.root
        scale = numpy.where(table.value.random, 1.0, math.sqrt(n))  # those are √n · … themselves
        found = numpy.concatenate([off, scale * (other - limit)], axis=1)
        return Draws(n, found, (found**2).mean(axis=0))


def expansion_verdict(limit: FiniteWidthLimit, asked: CheckAsked) -> Verdict:
    """b and C of every scalar, or the user's claims, judged at finite widths."""
    start = time.perf_counter()
    own = {k: v for k, v in asked.own.items() if v is not None}
    found = limit.table(**own, ratios=asked.given.ratios, constants=asked.given.constants)
    # √n Avg … changes sign with √n, and its covariances do not
    form = SERIES if all(found.value.random) else layer_series(limit.program, asked.given.constants)
    stated: Mapping[str, Any] = _Claims(found, 1).own()
    if asked.claims is not None:
        stated = by_name(asked.claims, "claims", CheckError)
    if not stated:
        raise CheckError(f"there is no claim to judge; claim b(…) or C(…) of {', '.join(found.labels)}.")
    chosen = observables(limit.program)
    scalars = {k: v for k, v in asked.numbers.constants.items() if k not in limit.program.constants}
    inner = Sampler(found.program, chosen, asked.sampling.seed, asked.given.ratios, scalars)
    # at limits L and averages of one table: what these are off does not grow with n where ψ is not centred again
    source = Scaled(Controlled(inner, found, (0.0 if found.is_exact else None,) * len(chosen)))

    def at(widths: Sequence[int]) -> OfOrders:
        taken, remarks = sampled_widths(limit.program, widths, form, asked.given.ratios)
        claims = tuple(_Claims(found, taken[-1]).claim(name, value) for name, value in stated.items())
        return OfOrders(source, taken, claims, (form,) * len(claims), asked.sampling.level, remarks)

    inquiry = at(asked.sampling.widths or WIDTHS)
    return concluded(inquiry if asked.sampling.widths else confirmed_by_wider(inquiry, at), asked.sampling, start)


@dataclass(frozen=True)
class _Claims:
    """Claims by their names; `widest` is the largest width that is sampled."""

    table: Table
    widest: int

    def own(self) -> dict[str, None]:
        """All that the expansion claims: a scalar that stays random has no b, a fixed one no C."""
        names: dict[str, None] = {}
        for i, label in enumerate(self.table.labels):
            if not self.table.value.random[i]:
                names[bias_name(label)] = None
            if self._variance(i) > _FIXED:
                names[f"C({label})"] = None
        return names

    def claim(self, name: str, value: Any) -> Claim:
        """A claim, with the value of the expansion where none is given."""
        what, places = self._places(name)
        table, labels = self.table, [self.table.labels[i] for i in places]
        if what == "b":
            number = table.number("bias", *places)
            off = self.widest * table.number("limit", *places).error  # n (θ − L) with an L that is off by so much
            error = math.hypot(number.error, off)
        else:
            number = table.number("covariance", places[0], places[-1])
            error = number.error
        stated, degrees = float(number), table.degrees or math.inf
        if value is not None:
            stated, error, degrees = on_one_number(name, value).value, 0.0, math.inf
        if what == "b":
            return bias_claim(labels[0], stated, error, self._variance(places[0]), degrees)
        size = math.sqrt(self._variance(places[0]) * self._variance(places[-1]))
        drawn = spread_names(table)
        return covariance_claim([drawn[i] for i in places], stated, error, size, degrees)

    def _variance(self, i: int) -> float:
        return max(float(self.table.value.covariance[i, i]), 0.0)

    def _places(self, name: str) -> tuple[str, tuple[int, ...]]:
        """What a claim is about, and the places of its scalars; CheckError for other names."""
        labels = self.table.labels
        found = parsed(name, labels)
        if found is None or (found[0] == "b" and self.table.value.random[found[1][0]]):
            raise CheckError(
                f"there is no claim {name!r:.200}: claims are b(…), C(…) and C(…, …) of {', '.join(labels)}, as "
                f"claims={{'b({labels[0]})': -0.2}}."
            )
        return found
