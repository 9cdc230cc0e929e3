"""Control variates: what the neurons of a drawn network are off their law, taken off its averages.

    θ_n − (1/n) Σ_α ψ(g_α) + E ψ(g)

has the mean of θ_n, and noise of order 1/n in the place of n^(−1/2), where ψ is the influence function of the expansion
in 1/n and g_α are the normal variables that the matrices of the network were made of
(`tplimits.numbers.expansion.coupled`).  E ψ(g) is a mean over the law of one neuron, found without any matrix and
without the limit: whatever ψ is, the mean stays that of θ_n, so that a wrong limit cannot hide in it.  (ψ itself is
centred at the limits that the expansion finds.  Taken off without E ψ(g), it would move θ_n to these limits, to first
order in what they are wrong by.)  The error of E ψ(g) is the same at all widths and counts in that of the intercept.

What stays to be believed is that g_α and g have one law.  The drawn networks tell: where the mean of what is taken off
is not 0 beyond doubt, nothing is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, TplimitsError
from tplimits.law.effort import deep
from tplimits.numbers.expansion import tables
from tplimits.numbers.expansion.coupled import REPLICATES, centre, off_limits
from tplimits.sampling.adaptive import Inquiry, affordable_draws
from tplimits.sampling.rows import Row, judge, slope
from tplimits.sampling.sample import Derived, Draws, Sampler
from tplimits.sampling.work import expansion_work

if TYPE_CHECKING:
    from tplimits.numbers.expansion.tables import Table

#: more work than this, in normal random numbers, is worth a second pilot: about 1 s
_DEAR = 1e8
#: draws of a pilot at each width: noise is small, and its law as wide as that of a square
_PILOT = 32
#: a mean of zero is beyond doubt none so many standard errors away
_DOUBTED = 6.0
_WITHOUT = "Control variates took no part:"


@dataclass(frozen=True)
class Controlled(Derived):
    """Draws without their part of first order, and as they are, one column a label for each."""

    inner: Sampler
    table: Table
    #: E ψ of each observable; None: the part of first order stays where it is
    mean: tuple[float | None, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of the observables, and again as drawn."""
        return (*self.inner.labels, *(f"{x}, as drawn" for x in self.inner.labels))

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""
        execution = self.inner.executed(n, index, draws)
        found = self.inner.observed(execution, n)
        near = found.values.copy()
        taking = [i for i, m in enumerate(self.mean) if m is not None]
        if taking:
            observables = self.inner.observables
            places = [self.table.labels.index(o.label) for o in observables]
            first = off_limits(execution, self.table, observables, places)
            near[:, taking] -= first[:, taking] - numpy.array([self.mean[i] for i in taking])
        return Draws(n, numpy.concatenate([near, found.values], axis=1), numpy.tile(found.squares, 2))


@dataclass(frozen=True)
class Plain(Inquiry):
    """Draws as they are; with control variates if `controls`, or (None) where a pilot asks for many draws."""

    controls: bool | None = None

    def sharper(self, pilot: Sequence[Draws]) -> Inquiry:
        wanted = self.controls
        missing = self._missing(pilot) if pilot and wanted is None else 0.0
        if wanted is None:
            wanted = missing > _DEAR
        means = {c.label for c in self.claims if c.statistic == "mean"}
        # a covariance is about the draws as they are; less noise in a column would change it
        means -= {label for c in self.claims if c.statistic != "mean" for label in c.labels}
        # asked for without effect is told, not asked for and without effect is not
        if not wanted or not (means or self.controls):
            return self
        if not means:
            return self._without("they are for means, and none is claimed.")
        # the expansion has to pay for itself in draws saved; asked for, or without a pilot, nothing counts as missing
        if 0 < missing < _DEAR + expansion_work(self.sampler.program):
            return self._without("for so many products the expansion in 1/n may take longer than the draws.")
        assert isinstance(self.sampler, Sampler)
        try:
            with deep(self.sampler.program.name, EvaluationError):
                return self._controlled(self.sampler, means)
        except TplimitsError as refused:
            return self._without(str(refused))

    def _without(self, why: str) -> Plain:
        return replace(self, remarks=(*self.remarks, f"{_WITHOUT} {why}"), controls=False)

    def _missing(self, pilot: Sequence[Draws]) -> float:
        """The work that is still to do by draws as they are."""
        missing = affordable_draws(self.required(pilot), [len(s.values) for s in pilot], self.costs)
        return sum(m * c for m, c in zip(missing, self.costs, strict=True))

    def _controlled(self, sampler: Sampler, means: set[str]) -> Inquiry:
        """The same with control variates; TplimitsError where the program has no expansion."""
        table = tables.expanded(sampler.program, sampler.given or {}, sampler.ratios or {})
        labels = sampler.labels
        places = [table.labels.index(label) for label in labels]
        at, error = centre(table, sampler.observables, places, sampler.seed)
        # a scalar that is random in the limit has no expansion about a number
        taken = [x in means and not table.value.random[i] for x, i in zip(labels, places, strict=True)]
        mean = tuple(float(m) if t else None for m, t in zip(at, taken, strict=True))
        source = Controlled(sampler, table, mean)
        errors = {x: float(e) for x, e, t in zip(labels, error, taken, strict=True) if t}
        # E ψ is a mean over so many scrambled point sets, and its error has their degrees of freedom
        shared = tuple((errors.get(c.label, 0.0), REPLICATES - 1.0) for c in self.claims)
        return WithControls(source, self.widths, self.claims, self.series, self.level, self.remarks, shared)


@dataclass(frozen=True)
class WithControls(Inquiry):
    """Claims on means judged without the part of first order."""

    shared: tuple[tuple[float, float], ...] = ()
    pilot = _PILOT

    @property
    def _drawn(self) -> dict[str, int]:
        """The columns as drawn."""
        labels = self.sampler.labels
        return {label: len(labels) // 2 + i for i, label in enumerate(labels[: len(labels) // 2])}

    def _doubted(self, samples: Sequence[Draws]) -> list[str]:
        """Labels whose control variate has not the mean 0 that it should have."""
        # what is taken off is the difference of the two columns of a label
        return [label for label, i in self._drawn.items() if abs(_score(samples, i, self.columns[label])) > _DOUBTED]

    def measured(self, samples: Sequence[Draws]) -> tuple[Draws, ...]:
        """The draws; all as they are where one control variate is doubtful, since the law of neurons is one for all."""
        if not self._doubted(samples):
            return tuple(samples)
        drawn = 2 * list(self._drawn.values())
        return tuple(Draws(s.n, s.values[:, drawn], s.squares) for s in samples)

    def judged(self, samples: Sequence[Draws]) -> tuple[Row, ...]:
        """One row a claim; the slope is that of what was drawn."""
        rows = super().judged(samples)
        return tuple(replace(row, slope=slope(row.claim, self._drawn, samples)) for row in rows)

    def told(self, samples: Sequence[Draws]) -> list[str]:
        """What control variates did."""
        doubted = self._doubted(samples)
        if doubted:
            names = ", ".join(f"`{label}`" for label in doubted)
            return [f"{_WITHOUT} neurons of the networks are not as the expansion has them, by what {names} shows."]
        plain = judge(self.claims, self.series, self._drawn, samples, self.level)
        worth = [
            (p.stderr / max(r.stderr, 1e-300)) ** 2
            for p, r in zip(plain, self.judged(samples), strict=True)
            if p.claim.statistic == "mean"
        ]
        times = f"{float(f'{min(worth):.1e}' if min(worth) >= 10 else f'{min(worth):.1f}'):g}"
        return [f"Control variates took part: with them these draws are worth {times} times as many."]


def _score(samples: Sequence[Draws], drawn: int, controlled: int) -> float:
    """How many standard errors the mean of a control variate is from 0, over all neurons."""
    total = variance = 0.0
    for s in samples:
        off: Array = s.values[:, drawn] - s.values[:, controlled]
        # the control is a mean over n neurons, so that n times it is a sum over neurons, alike at all widths
        total += s.n * float(off.sum())
        variance += s.n**2 * len(off) * float(off.var(ddof=1))
    return total / math.sqrt(variance) if variance > 0 else 0.0
