"""Draws that the check chooses itself."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest

from tplimits.law.observables import observables
from tplimits.progress import Report
from tplimits.sampling import adaptive
from tplimits.sampling.adaptive import Inquiry, affordable_draws, doubtful, look_again, sample_adaptively
from tplimits.sampling.claims import Claim
from tplimits.sampling.estimate import Series
from tplimits.sampling.sample import Sampler

QUIET = Report(lambda done, total, text: None)
WIDTHS = (16, 32, 64, 128)
PAIRS = 2 / numpy.sqrt(numpy.pi)


def inquiry(program, *claims, seed=0, level=0.01):
    known = observables(program)
    return Inquiry(Sampler(program, known, seed), WIDTHS, claims, (Series(),) * len(claims), level)


def test_draws_suffice_for_the_tolerance(programs, seed):
    asked = inquiry(programs.pairs, Claim("return", PAIRS), seed=seed)
    (row,) = asked.judged(sample_adaptively(asked, None, QUIET))
    assert 0.5 * row.tolerance < row.finds <= 1.02 * row.tolerance


def test_draws_do_not_depend_on_the_claims_truth_by_much(programs, seed):
    """A wrong value asks for its own 2 %; the draws differ by the square of the ratio of values."""
    true, wrong = (
        sum(
            len(s.values)
            for s in sample_adaptively(inquiry(programs.pairs, Claim("return", v), seed=seed), None, QUIET)
        )
        for v in (PAIRS, 0.98 * PAIRS)
    )
    assert true <= wrong < 1.3 * true


def test_the_work_limit_scales_everything_down():
    limit = adaptive.MOST_WORK
    assert affordable_draws((limit, 0), (0, 0), (1.0, 1.0)) == [int(limit), 0]
    assert affordable_draws((2 * limit, 2 * limit), (0, 0), (1.0, 1.0)) == [int(limit / 2)] * 2
    assert affordable_draws((2 * limit,), (limit,), (1.0,)) == [0]
    assert affordable_draws((5,), (9,), (1.0,)) == [0]
    assert affordable_draws((limit,), (limit // 8,), (4.0,)) == [pytest.approx(limit / 8, abs=1)]


@pytest.mark.long
def test_a_claim_wrong_beyond_doubt_stops_expensive_sampling(programs, seed, monkeypatch):
    """⟨x|WWx⟩ = 0.6 is false by 0.6, but would be checked to 2 % of 0.6."""
    asked = replace(inquiry(programs.twice, Claim("return", 0.6), seed=seed), widths=(64, 128, 256))
    work = {}
    for limit in (1e6, float("inf")):
        monkeypatch.setattr(adaptive, "_EXPENSIVE", limit)
        samples = sample_adaptively(asked, None, QUIET)
        work[limit] = sum(len(s.values) * cost for s, cost in zip(samples, asked.costs, strict=True))
        assert not asked.judged(samples)[0].accepted
    assert work[1e6] < 0.4 * work[float("inf")]


def test_doubtful_is_a_rejection_that_is_not_beyond_doubt(programs, seed):
    asked = inquiry(programs.pairs, Claim("return", PAIRS), seed=seed)
    (row,) = asked.judged(sample_adaptively(asked, None, QUIET))
    rejected = replace(row, accepted=False)
    assert doubtful([replace(rejected, p_holm=0.005)], 0.01)
    assert not doubtful([replace(rejected, p_holm=1e-9)], 0.01)
    assert not doubtful([replace(row, accepted=True)], 0.01)


def test_looking_again_doubles_the_draws_and_keeps_what_was_accepted(programs, seed):
    asked = inquiry(programs.pairs, Claim("return", PAIRS), Claim("return", 0.9), seed=seed)
    samples = sample_adaptively(asked, None, QUIET)
    first = [
        replace(row, accepted=accepted) for row, accepted in zip(asked.judged(samples), (False, True), strict=True)
    ]
    rows, more = look_again(asked, first, samples, None, QUIET)
    assert [len(s.values) for s in more] == [2 * len(s.values) for s in samples]
    assert all((s.values == m.values[: len(s.values)]).all() for s, m in zip(samples, more, strict=True))
    assert len(numpy.unique(more[0].values[:, 0])) == len(more[0].values), "fresh draws, not the same again"
    assert rows[0].accepted, "a true claim rejected by accident is accepted by all draws"
    assert rows[1].accepted and rows[1].p_holm < 1e-6, "one that the first draws accepted stays accepted"


@pytest.mark.parametrize("level", [0.2, 1e-4])
def test_stricter_levels_take_more_draws(programs, seed, level):
    asked = inquiry(programs.pairs, Claim("return", PAIRS), seed=seed, level=level)
    usual = inquiry(programs.pairs, Claim("return", PAIRS), seed=seed)
    samples = sample_adaptively(usual, None, QUIET)
    assert (sum(asked.required(samples)) > sum(usual.required(samples))) == (level < 0.01)


def test_every_width_pays_its_own_cost():
    limit = adaptive.MOST_WORK
    assert affordable_draws((limit, limit), (0, 0), (1.0, 4.0)) == [int(limit / 5)] * 2


@pytest.mark.parametrize("draws", [5_000, 10_000])
def test_pilots_of_expensive_widths_are_small(draws):
    asked = SimpleNamespace(widths=WIDTHS, pilot=10**9, least=1)
    assert adaptive._pilot(asked, adaptive._PILOT_WORK / len(WIDTHS) / draws) == pytest.approx(draws, abs=1)


def test_one_draw_more_is_drawn_and_none_is_not(programs):
    """In whole batches, which go on where the first ones ended."""
    asked = inquiry(programs.pairs, Claim("return", PAIRS))
    first = adaptive._extended(asked, (), [1, 1, 1, 1], None, QUIET, "")
    sizes = [asked.sampler.batch(n) for n in WIDTHS]
    assert [len(s.values) for s in first] == sizes
    more = adaptive._extended(asked, first, [0, 1, -3, sizes[3] + 1], None, QUIET, "")
    assert [len(s.values) for s in more] == [sizes[0], 2 * sizes[1], sizes[2], 3 * sizes[3]]
    assert len(numpy.unique(more[3].values)) == 3 * sizes[3]


def test_pilots_have_as_many_draws_as_work_allows_and_no_fewer_than_say_something(programs):
    asked = inquiry(programs.pairs, Claim("return", PAIRS))
    cheap = adaptive._PILOT_WORK / len(WIDTHS)
    assert [adaptive._pilot(asked, cheap / d) for d in (1e6, 40.5, 1.0)] == [64, 40, 16]


def test_doubt_begins_at_a_thousandth_of_the_level(programs):
    asked = inquiry(programs.pairs, Claim("return", PAIRS), Claim("return", PAIRS))
    samples = adaptive._extended(asked, (), [64] * 4, None, QUIET, "")
    rows = asked.judged(samples)
    for p, beyond in ((0.9e-5, True), (1.1e-5, False)):
        judged = [replace(rows[0], p_holm=1.0), replace(rows[1], p_holm=p, accepted=False)]
        assert adaptive.beyond_doubt(judged, 0.01) is beyond
        assert doubtful(judged, 0.01) is not beyond


class Planned:
    """An inquiry that asks for given draws round after round, and writes down what is added and when it is judged."""

    widths, level, costs = (8, 16), 0.01, [1.0, 3.0]

    def __init__(self, monkeypatch, wanted, p=1.0):
        self.wanted, self.p, self.log = iter(wanted), p, []
        monkeypatch.setattr(adaptive, "_extended", self.extended)
        monkeypatch.setattr(adaptive, "_EXPENSIVE", 700.0)

    def extended(self, inquiry, samples, missing, executor, report, text):
        self.log.append(list(missing))
        return tuple(SimpleNamespace(values=[0] * (len(s.values) + m)) for s, m in zip(samples, missing, strict=True))

    def required(self, samples):
        return next(self.wanted)

    def judged(self, samples):
        self.log.append("judged")
        return [SimpleNamespace(p_holm=self.p)]


@pytest.mark.parametrize(
    ("wanted", "p", "log"),
    [
        ([(103, 103)], 1.0, []),  # hardly more than there is
        ([(104, 100), (104, 100)], 1.0, [[4, 0]]),
        ([(300, 266), (300, 266)], 1e-9, [[200, 166]]),  # cheap: never looked at before its end
        ([(301, 267), (301, 267), (301, 267)], 1.0, [[26, 21], "judged", [175, 146]]),  # an eighth, rounded up
        ([(301, 267)], 1e-9, [[26, 21], "judged"]),  # no further draws could save it
        ([(200, 100), (900, 100), (900, 100)], 1e-9, [[100, 0], [700, 0]]),  # what is dear in a later round is done
        ([(200, 100), (400, 100), (800, 100), (1600, 100)], 1.0, [[100, 0], [200, 0], [400, 0], [800, 0]]),
    ],
)
def test_rounds(monkeypatch, wanted, p, log):
    """At most four; an eighth of what is dear first, which alone is judged, and stops where it is beyond doubt."""
    asked = Planned(monkeypatch, wanted, p)
    pilot = tuple(SimpleNamespace(values=[0] * 100) for _ in asked.widths)
    found = sample_adaptively(asked, None, QUIET, pilot)
    assert asked.log == log
    added = [row for row in log if row != "judged"]
    assert [len(s.values) for s in found] == [100 + sum(row[i] for row in added) for i in range(2)]
    assert next(asked.wanted, None) is None, "asked once a round"


def test_pilots_say_what_is_asked_for_at_least_as_far_as_all_work_allows():
    asked = SimpleNamespace(widths=WIDTHS, pilot=64, least=500)
    assert [adaptive._pilot(asked, adaptive.MOST_WORK / d) for d in (1e9, 501.5, 499.5, 100.5, 3.0)] == [
        500,
        500,
        499,
        100,
        16,
    ]
