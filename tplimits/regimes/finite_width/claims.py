"""b and C against networks of finite width.

    n (θ_n − L) has mean b + c/n + …      √n θ_n has covariances C + c/n + …

A claim is "b(θ)", "C(θ)" or "C(θ, θ′)".  Of n (θ_n − L) the part of first order is taken off, whose mean is zero: its
noise would grow with n.  It is found at the normal variables that the matrices of each network were made of
(`tplimits.numbers.expansion.coupled`).
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import CheckError
from tplimits.law.observables import observables
from tplimits.program.nodes.given import by_name
from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.claims import Claim, on_one_number
from tplimits.sampling.controls import Controlled
from tplimits.sampling.estimate import Series
from tplimits.sampling.sample import Draws, Sampler
from tplimits.sampling.verdict import concluded
from tplimits.sampling.widths import sampled_widths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tplimits.numbers.expansion.tables import Table
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.finite_width.limit import FiniteWidthLimit
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.sampling.verdict import Verdict

#: widths unless others are asked for: the noise of n(θ − L) grows with n
WIDTHS = (16, 32, 64, 128)
#: b + c/n, C + c/n
SERIES = Series((Fraction(1),))
#: errors of claims that are to be found, in shares of √C and C, times 50 (`design.TOLERANCE` is 2 %)
_SIZE = 5.0
#: a variance below this is that of what does not fluctuate
_FIXED = 1e-12
_NAME = re.compile(r"(?P<what>[bC])\((?P<names>.+)\)")


@dataclass(frozen=True)
class Scaled:
    """Draws of n (θ − L) and of √n θ."""

    inner: Controlled

    @property
    def program(self) -> Program:
        """What is run."""
        return self.inner.program

    @property
    def labels(self) -> tuple[str, ...]:
        """b(θ) and √n θ for every scalar."""
        names = self.inner.inner.labels
        return (*(f"b({x})" for x in names), *(f"√n·{x}" for x in names))

    def prepare(self) -> None:
        """Nothing is needed before."""
        self.inner.prepare()

    def batch(self, n: int) -> int:
        """Draws in a full batch at width n."""
        return self.inner.batch(n)

    def work(self, n: int) -> float:
        """The work of one draw at width n."""
        return self.inner.work(n)

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
    taken, remarks = sampled_widths(limit.program, asked.sampling.widths or WIDTHS, SERIES, asked.given.ratios)
    writer = _Claims(found, taken[-1])
    stated: Mapping[str, Any] = writer.own()
    if asked.claims is not None:
        stated = by_name(asked.claims, "claims", CheckError)
    if not stated:
        raise CheckError(f"there is no claim to judge; claim b(…) or C(…) of {', '.join(found.labels)}.")
    claims = tuple(writer.claim(name, value) for name, value in stated.items())
    chosen = observables(limit.program)
    scalars = {k: v for k, v in asked.numbers.constants.items() if k not in limit.program.constants}
    inner = Sampler(found.program, chosen, asked.sampling.seed, asked.given.ratios, scalars)
    # at limits L and averages of one table: what these are off does not grow with n where ψ is not centred again
    source = Scaled(Controlled(inner, found, (0.0 if found.is_exact else None,) * len(chosen)))
    inquiry = Inquiry(source, taken, claims, (SERIES,) * len(claims), asked.sampling.level, remarks)
    return concluded(inquiry, asked.sampling, start)


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
                names[f"b({label})"] = None
            if self._variance(i) > _FIXED:
                names[f"C({label})"] = None
        return names

    def claim(self, name: str, value: Any) -> Claim:
        """A claim, with the value of the expansion where none is given."""
        what, places = self._parsed(name)
        labels, degrees = self.table.labels, self.table.degrees or math.inf
        if what == "b":
            number = self.table.number("bias", *places)
            off = self.widest * self.table.number("limit", *places).error  # n (θ − L) with an L that is off by so much
            error = math.hypot(number.error, off)
            size = _SIZE * (abs(float(number)) + math.sqrt(self._variance(places[0])))
            kind: dict[str, Any] = {"label": f"b({labels[places[0]]})"}
        else:
            number = self.table.number("covariance", places[0], places[-1])
            error, size = number.error, _SIZE * math.sqrt(self._variance(places[0]) * self._variance(places[-1]))
            other = f"√n·{labels[places[-1]]}" if len(places) == 2 else None
            kind = {"label": f"√n·{labels[places[0]]}", "other": other, "statistic": "covariance"}
        if value is None:
            return Claim(value=float(number), error=error, size=size or None, degrees=degrees, **kind)
        return Claim(value=float(on_one_number(name, value).value), size=size or None, **kind)

    def _variance(self, i: int) -> float:
        return max(float(self.table.value.covariance[i, i]), 0.0)

    def _parsed(self, name: str) -> tuple[str, list[int]]:
        """ "C(a, b)" as "C" and the places of a and b; CheckError for other names."""
        labels = self.table.labels
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        if found is not None:
            what, inside = found["what"], found["names"]
            for names in ([inside], inside.split(", ")):
                places = [labels.index(x) for x in names if x in labels]
                if len(places) == len(names) <= (1 if what == "b" else 2) and not (
                    what == "b" and self.table.value.random[places[0]]
                ):
                    return what, places
        raise CheckError(
            f"there is no claim {name!r:.200}: claims are b(…), C(…) and C(…, …) of {', '.join(labels)}, as "
            f"claims={{'b({labels[0]})': -0.2}}."
        )
