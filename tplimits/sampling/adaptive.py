"""Draws in rounds: a pilot measures variances, then each width gets what the claims demand, within a limit.

A first rejection that is not beyond doubt is looked at once more: as many fresh draws are added, and a claim stays
rejected only if all draws together reject it as well.  That can only lower the probability to reject a true
claim (from 1 in 100 to about 1 in 500 at level 0.01), and costs a wrong one nothing, because twice the draws
see it more clearly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tplimits.sampling.design import allocate, demand
from tplimits.sampling.rows import Row, judge, moments_of
from tplimits.sampling.sample import Draws, Source, sample

if TYPE_CHECKING:
    from tplimits.progress import Report
    from tplimits.sampling.claims import Claim
    from tplimits.sampling.estimate import Series

#: draws of the pilot at each width, and when they are expensive
_PILOT, _LEAST = 64, 16
#: work in all, in normal random numbers, and of the pilot: about 10 s and 1 s on two processors
MOST_WORK = 2e9
_PILOT_WORK = 2e8
_ROUNDS = 4
#: of more work than this an eighth is done first, which may already reject a claim beyond doubt
_EXPENSIVE, _FIRST = 3e8, 8
#: a round is worth while when it adds this much to the draws of some width
_WORTH = 1.03
#: a rejection is beyond doubt when its adjusted p-value is this small against the level
_BEYOND_DOUBT = 1e-3


@dataclass(frozen=True)
class Inquiry:
    """What is asked: claims with the series they are fitted by, at which widths, judged at which level."""

    sampler: Source
    widths: tuple[int, ...]
    claims: tuple[Claim, ...]
    series: tuple[Series, ...]
    level: float
    remarks: tuple[str, ...] = ()

    @property
    def pilot(self) -> int:
        """Draws of the pilot at each width, where they are cheap."""
        return _PILOT

    @property
    def least(self) -> int:
        """Draws of the pilot at each width, however expensive: fewer say nothing."""
        return _LEAST

    @property
    def columns(self) -> dict[str, int]:
        """The place of each observable in the draws."""
        return {label: i for i, label in enumerate(self.sampler.labels)}

    @property
    def costs(self) -> list[float]:
        """The work of one draw at each width."""
        return [self.sampler.work(n) for n in self.widths]

    def measured(self, samples: Sequence[Draws]) -> tuple[Draws, ...]:
        """The draws with the columns that claims are about."""
        return tuple(samples)

    @property
    def shared(self) -> tuple[tuple[float, float], ...]:
        """For each claim an error that the means of all widths have in common, and its degrees of freedom."""
        return ((0.0, math.inf),) * len(self.claims)

    def sharper(self, pilot: Sequence[Draws]) -> Inquiry:
        """The same question by draws that tell more, where a pilot, which is () before there is one, says it pays."""
        return self

    def beyond(self, samples: Sequence[Draws]) -> Inquiry | None:
        """The same question of wider networks, if what these draws do not accept has to be asked of them."""
        return None

    def told(self, samples: Sequence[Draws]) -> list[str]:
        """What is to be remarked when all is sampled."""
        return []

    def judged(self, samples: Sequence[Draws]) -> tuple[Row, ...]:
        """One row a claim."""
        return judge(self.claims, self.series, self.columns, self.measured(samples), self.level, self.shared)

    def required(self, samples: Sequence[Draws]) -> tuple[int, ...]:
        """Draws at each width that find every wrong claim, by the variances of the draws at hand."""
        columns, many, samples = self.columns, len(self.claims), self.measured(samples)
        demands = [
            demand(moments_of(c, columns, samples), form, c.value, math.hypot(c.error, e), self.level, many, c.size)
            for c, form, (e, _) in zip(self.claims, self.series, self.shared, strict=True)
        ]
        return allocate(demands, self.costs)


def sample_fixed(
    inquiry: Inquiry, draws: Sequence[int], executor: Executor | None, report: Report
) -> tuple[Draws, ...]:
    """As many draws as were asked for."""
    wanted = {n: (0, d) for n, d in zip(inquiry.widths, draws, strict=True)}
    report.plan(sum(d * c for d, c in zip(draws, inquiry.costs, strict=True)), "sampling")
    found = sample(inquiry.sampler, wanted, executor, report)
    return tuple(found[n] for n in inquiry.widths)


def sample_pilot(inquiry: Inquiry, executor: Executor | None, report: Report) -> tuple[Draws, ...]:
    """A few draws at each width, to choose the others by."""
    missing = [_pilot(inquiry, cost) for cost in inquiry.costs]
    return _extended(inquiry, (), missing, executor, report, "pilot")


def sample_adaptively(
    inquiry: Inquiry, executor: Executor | None, report: Report, pilot: tuple[Draws, ...] = ()
) -> tuple[Draws, ...]:
    """Draws until every claim off by its tolerance would be found, or the work limit is reached."""
    costs = inquiry.costs
    samples = pilot or sample_pilot(inquiry, executor, report)
    for number in range(_ROUNDS):
        have = [len(s.values) for s in samples]
        wanted = inquiry.required(samples)
        # variances are measured anew in every round: those of the pilot may be off by a factor for skewed data
        missing = affordable_draws(wanted, have, costs)
        if not any(missing) or all(w <= _WORTH * h for w, h in zip(wanted, have, strict=True)):
            break
        first = number == 0 and sum(m * c for m, c in zip(missing, costs, strict=True)) > _EXPENSIVE
        if first:
            # a claim that is far off is found by few draws; a true one costs no more, as these draws are kept
            missing = [-(-m // _FIRST) for m in missing]
        samples = _extended(inquiry, samples, missing, executor, report, "sampling")
        if first and beyond_doubt(inquiry.judged(samples), inquiry.level):
            break
    return samples


def _pilot(inquiry: Inquiry, cost: float) -> int:
    """Draws of the pilot at a width where one costs so much."""
    affordable = int(_PILOT_WORK / len(inquiry.widths) / cost)
    # `least` may ask for more than the pilot's work allows, but never for more than all of the work
    return max(_LEAST, min(inquiry.pilot, affordable), min(inquiry.least, int(MOST_WORK / cost)))


def beyond_doubt(rows: Sequence[Row], level: float) -> bool:
    """Whether a claim is rejected so clearly that no further draws could save it."""
    return min(row.p_holm for row in rows) <= _BEYOND_DOUBT * level


def doubtful(rows: Sequence[Row], level: float) -> bool:
    """Whether claims are rejected, but none beyond doubt."""
    return any(row.accepted is False for row in rows) and not beyond_doubt(rows, level)


def look_again(
    inquiry: Inquiry, first: Sequence[Row], samples: tuple[Draws, ...], executor: Executor | None, report: Report
) -> tuple[tuple[Row, ...], tuple[Draws, ...]]:
    """Rows by twice the draws; a claim that the first half accepted stays accepted."""
    samples = _extended(inquiry, samples, [len(s.values) for s in samples], executor, report, "looking again")
    rows = inquiry.judged(samples)
    # a second look at an accepted claim would be one more chance to reject a true one
    looks = [(row.accepted, old.accepted) for row, old in zip(rows, first, strict=True)]
    kept = (replace(row, accepted=any(a) or (None if None in a else False)) for row, a in zip(rows, looks, strict=True))
    return tuple(kept), samples


def affordable_draws(wanted: Sequence[int], have: Sequence[int], costs: Sequence[float]) -> list[int]:
    """The draws still missing, all in the same proportion where the work limit does not allow them."""
    missing = [max(0, w - h) for w, h in zip(wanted, have, strict=True)]
    spent = sum(h * c for h, c in zip(have, costs, strict=True))
    asked = sum(m * c for m, c in zip(missing, costs, strict=True))
    # one proportion for all widths keeps the design, which was the cheapest for its precision
    part = min(1.0, max(0.0, MOST_WORK - spent) / asked) if asked else 0.0
    return [int(m * part) for m in missing]


def _extended(
    inquiry: Inquiry,
    samples: Sequence[Draws],
    missing: Sequence[int],
    executor: Executor | None,
    report: Report,
    text: str,
) -> tuple[Draws, ...]:
    """The draws with more of them, in whole batches."""
    sampler, done = inquiry.sampler, {s.n: s for s in samples}
    wanted: dict[int, tuple[int, int]] = {}
    for n, draws in zip(inquiry.widths, missing, strict=True):
        size, before = sampler.batch(n), len(done[n].values) if n in done else 0
        if draws > 0:
            # batches are seeded by their number: one cut short would have its other draws made again by the next
            wanted[n] = (before // size, -(-draws // size) * size)
    report.plan(sum(draws * sampler.work(n) for n, (_, draws) in wanted.items()), text)
    more = _added(done, sample(sampler, wanted, executor, report))
    return tuple(more[n] for n in inquiry.widths)


def _added(done: Mapping[int, Draws], more: Mapping[int, Draws]) -> dict[int, Draws]:
    return {**done, **{n: done[n].joined([draws]) if n in done else draws for n, draws in more.items()}}
