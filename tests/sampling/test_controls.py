"""Control variates of `check`: they take noise away, and no error of a limit."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest

import tplimits as tp
from tplimits.errors import CheckError
from tplimits.law.observables import observables
from tplimits.numbers.expansion import tables
from tplimits.numbers.expansion.coupled import REPLICATES, centre
from tplimits.sampling.claims import Claim
from tplimits.sampling.controls import Controlled, Plain, WithControls, _score
from tplimits.sampling.estimate import Series
from tplimits.sampling.sample import Draws, Sampler
from tplimits.sampling.sampling import Sampling
from tplimits.sampling.verdict import concluded, run_check

TANH2, SECH2 = 0.3942944, 0.6057055  # E tanh(g)², E sech(g)²
WIDTHS = (64, 128, 256)
DRAWS = (100, 40, 20)
FEW = Sampling(widths=WIDTHS, draws=DRAWS, progress=False)


@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W.T @ tp.tanh(W @ x)))


@tp.program
def larger(W: tp.Matrix, x: tp.Vector.normal(0, 1.1)):
    return tp.avg(x * (W.T @ tp.tanh(W @ x)))


@tp.program
def uneven(W: tp.Matrix["k", "n"], x: tp.Vector):
    y = tp.tanh(W @ x)
    return tp.avg((W.T @ y) ** 2), tp.avg(y**2)


def columns(program, table, mean, ratios=None):
    """The draws of one width, controlled and as drawn."""
    source = Controlled(Sampler(program, observables(program), 1, ratios), table, mean)
    source.prepare()
    return numpy.split(source.run(64, 0, 200).values, 2, axis=1)


def test_the_mean_stays_and_the_noise_falls():
    """With transposes, an axis twice as wide, and functions of two averages."""
    ratios = {"k": 2.0}
    table = tables.expanded(uneven, {}, ratios)
    at, error = centre(table, observables(uneven), (0, 1), 0)
    assert (abs(at) < 5 * error + 1e-9).all()
    assert (error < 1e-3).all()
    one, plain = columns(uneven, table, tuple(at), ratios=ratios)
    off = plain - one
    assert (abs(off.mean(axis=0)) < 4 * off.std(axis=0) / len(off) ** 0.5).all()
    assert (one.var(axis=0) < plain.var(axis=0) / 20).all()
    moved, same = columns(uneven, table, tuple(numpy.add(at, [1.0, 2.0])), ratios=ratios)
    assert (same == plain).all()
    assert abs(moved - one - [1.0, 2.0]).max() < 1e-12, "E ψ(g) is added again"
    half, _ = columns(uneven, table, (float(at[0]), None), ratios=ratios)
    assert (half[:, 0] == one[:, 0]).all() and (half[:, 1] == plain[:, 1]).all()


def believing(wrong):
    """An expansion of `tied` whose averages are off by so much, as those of a wrong rule would be."""
    table = tables.expanded(tied, {}, {})
    calls = tuple((value * (1 + wrong), j) for value, j in table.value.calls)
    return replace(table, value=replace(table.value, calls=calls))


def judged(table, mean, error, *values):
    """Verdicts on values claimed of `tied`, by the same few draws."""
    source = Controlled(Sampler(tied, observables(tied), 0), table, mean)
    shared = ((error, REPLICATES - 1.0),)
    return [
        concluded(WithControls(source, WIDTHS, (Claim("return", v),), (Series(),), 0.01, (), shared), FEW, 0.0).accepted
        for v in values
    ]


def test_a_wrong_expansion_hides_no_wrong_limit():
    """Averages 2 % off: neurons centred at them say what they say, those centred at their law what is true."""
    table = believing(0.02)
    (at,), (error,) = centre(table, observables(tied), (0,), 0)
    assert at < -0.01
    believed = SECH2 - float(at)
    assert judged(table, (float(at),), float(error), SECH2, believed) == [True, False]
    assert judged(table, (0.0,), 0.0, SECH2, believed) == [False, True]


def test_wrong_influences_cost_noise_alone():
    table = tables.expanded(tied, {}, {})
    half = replace(table, value=replace(table.value, total=table.value.total / 2))
    (at,), (error,) = centre(half, observables(tied), (0,), 0)
    assert judged(half, (float(at),), float(error), SECH2, 0.95 * SECH2) == [True, False]


def test_neurons_of_another_law_are_seen():
    """Entries 10 % larger than the expansion has them: what is taken off has not the mean 0, and stays."""
    source = Controlled(Sampler(larger, observables(larger), 0), tables.expanded(tied, {}, {}), (0.0,))
    claims = (Claim("return", SECH2),)
    verdict = concluded(WithControls(source, FEW.widths, claims, (Series(),), 0.01, (), ((0.0, 15.0),)), FEW, 0.0)
    assert "Control variates took no part: neurons of the networks are not as the" in verdict.sentence
    assert verdict.rows[0].fit == run_check(larger, claims, FEW).rows[0].fit


def test_a_check_finds_a_wrong_limit_with_few_draws():
    limit = tp.derive(tied)
    few = {"widths": WIDTHS, "draws": DRAWS, "progress": False}
    verdict = tp.check(limit, controls=True, **few)
    assert verdict.accepted
    assert re.search(
        r"Control variates took part: with them these draws are worth \d+ times as many\.", verdict.sentence
    )
    wrong = {"claims": {"return": 0.98 * SECH2}}
    assert not tp.check(limit, controls=True, **wrong, **few).accepted
    plain = tp.check(limit, **wrong, **few)
    assert plain.accepted
    assert "Control variates" not in plain.sentence
    assert verdict.rows[0].slope == tp.check(limit, controls=False, **few).rows[0].slope


def test_they_are_taken_where_many_draws_are_asked_for(monkeypatch):
    claims = [Claim("return", SECH2, size=2 * SECH2)]
    asked = Sampling(widths=WIDTHS, progress=False)
    plain = run_check(tied, claims, asked)
    assert "Control variates" not in plain.sentence
    monkeypatch.setattr("tplimits.sampling.controls._DEAR", 1e6)
    verdict = run_check(tied, claims, asked)
    assert "Control variates took part" in verdict.sentence
    assert sum(verdict.draws) * 2 < sum(plain.draws)


def test_an_expansion_that_may_take_longer_than_the_draws_is_not_made(monkeypatch):
    monkeypatch.setattr("tplimits.sampling.controls._DEAR", 1e6)
    monkeypatch.setattr("tplimits.sampling.controls.expansion_work", lambda program: 1e12)
    claims = [Claim("return", SECH2, size=2 * SECH2)]
    verdict = run_check(tied, claims, Sampling(widths=WIDTHS, progress=False))
    assert "took no part: for so many products the expansion in 1/n may take longer" in verdict.sentence


def test_programs_without_an_expansion_are_checked_as_they_are():
    @tp.program
    def signs(W: tp.Matrix.signs(), x: tp.Vector):
        return tp.avg(tp.tanh(W @ x) ** 2)

    claims = [Claim("return", TANH2)]
    with_word, plain = (run_check(signs, claims, FEW, controls=c) for c in (True, False))
    assert "Control variates took no part: entries of `W` are not normal" in with_word.sentence
    assert with_word.rows == plain.rows


def test_what_has_no_mean_is_checked_as_it_is():
    @tp.program
    def fluctuation(u: tp.Vector, v: tp.Vector):
        return tp.avg(u * v) * tp.sqrt(tp.n)

    verdict = run_check(fluctuation, [Claim("return", 1.0, statistic="covariance")], FEW, controls=True)
    assert "Control variates took no part: they are for means, and none is claimed." in verdict.sentence


def test_answers_that_are_none():
    with pytest.raises(CheckError, match=re.escape("controls='often': give True, False, or None")):
        tp.check(tp.derive(tied), controls="often", progress=False)


@tp.program
def gained(W: tp.Matrix["k", "n"], x: tp.Vector, c: tp.Scalar):
    return tp.avg(tp.tanh(c * (W @ x)) ** 2), tp.sqrt(tp.n) * tp.avg(x)


def test_what_is_given_reaches_the_expansion():
    """Scalars and ratios: with others the noise would not fall, and the error of E ψ(g) is that of its replicates."""
    ratios, given = {"k": 2.0}, {"c": 0.5}
    sampler = Sampler(gained, observables(gained), 1, ratios, given)
    claims = (Claim("return[0]", 0.2), Claim("return[1]", 1.0, statistic="covariance"))
    inquiry = Plain(sampler, FEW.widths, claims, (Series(),) * 2, 0.01, controls=True).sharper(())
    assert isinstance(inquiry, WithControls)
    (error, degrees), (none, _) = inquiry.shared
    assert 0 <= error < 1e-3 and degrees == REPLICATES - 1 and none == 0
    inquiry.sampler.prepare()
    drawn = inquiry.sampler.run(64, 0, 200).values
    assert drawn.shape == (200, 4)
    assert drawn[:, 0].var() < drawn[:, 2].var() / 20
    assert (drawn[:, 1] == drawn[:, 3]).all(), "no mean is claimed of it"
    samples = (Draws(64, drawn, numpy.ones(4)),)
    assert inquiry.measured(samples)[0].values is drawn
    off = numpy.array(drawn)
    off[:, 0] = drawn[:, 2] - drawn[:, 2].std() * (1 + 0.1 * numpy.arange(200) % 1)
    (without,) = inquiry.measured((Draws(64, off, numpy.ones(4)),))
    assert (without.values[:, [0, 1]] == drawn[:, [2, 3]]).all(), "the mean of what is taken off is not 0: as drawn"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_the_score_of_a_mean_is_in_standard_errors(scale):
    """√N times mean over deviation, widths weighed by their neurons; nothing is said of what does not vary."""
    rng = numpy.random.default_rng(0)
    values = scale * (rng.standard_normal((40, 3)) + 0.3)
    off = values[:, 2] - values[:, 1]
    one = SimpleNamespace(n=64, values=values)
    expected = len(off) ** 0.5 * off.mean() / off.std(ddof=1)
    assert _score([one], 2, 1) == pytest.approx(expected, rel=1e-12)
    other = SimpleNamespace(n=128, values=values)
    both = (64 + 128) * off.sum() / (off.var(ddof=1) * len(off) * (64**2 + 128**2)) ** 0.5
    assert _score([one, other], 2, 1) == pytest.approx(both, rel=1e-12)
    assert _score([SimpleNamespace(n=64, values=0 * values)], 2, 1) == 0.0


class Decides(Plain):
    """A question whose answers to what is asked of draws and programs are given."""

    def _missing(self, pilot):
        return pilot[0]

    def _controlled(self, sampler, means):
        return means


@pytest.mark.parametrize(
    ("controls", "pilot", "kinds", "said"),
    [
        (None, (), "mean", None),  # not without a pilot
        (None, (0.9e8,), "mean", None),
        (None, (1.1e8,), "mean", {"a"}),
        (None, (1e12,), "mean", {"a"}),
        (None, (1e12,), "covariance", None),
        (None, (1e12,), "both", None),  # of one scalar both are claimed
        (False, (1e12,), "mean", None),
        (True, (), "mean", {"a"}),
        (True, (5.0,), "mean", {"a"}),  # asked for: whatever it costs
        (True, (), "covariance", "none is claimed"),
        (None, (1.2e8,), "dear", "may take longer than the draws"),
        (None, (9e8,), "dear", {"a"}),
        (True, (), "dear", {"a"}),
    ],
)
def test_when_a_question_becomes_sharper(monkeypatch, controls, pilot, kinds, said):
    """Where many draws are missing and means are claimed; an expansion that costs more than they is not made."""
    monkeypatch.setattr("tplimits.sampling.controls.expansion_work", lambda program: 5e8 if kinds == "dear" else 1e6)
    mean, spread = Claim("a", 1.0), Claim("a", 1.0, statistic="covariance")
    claims = {"mean": (mean,), "dear": (mean,), "covariance": (spread,), "both": (mean, spread)}[kinds]
    asked = Decides(Sampler(tied, observables(tied), 0), WIDTHS, claims, (Series(),), 0.01, controls=controls)
    found = asked.sharper(pilot)
    if isinstance(said, str):
        assert said in found.remarks[-1] and found.controls is False
    else:
        assert found == said if said else found is asked


@pytest.mark.parametrize(("factor", "other", "worth"), [(2.0, 9.0, 4.0), (12.0, 20.0, 144.0), (1.3, 1.3, 1.69)])
def test_what_control_variates_are_worth_is_told_of_the_least_of_them(factor, other, worth):
    """Noise smaller by k is worth k² times as many draws; claims on covariances have none taken off."""
    rng, samples = numpy.random.default_rng(0), []
    for n in WIDTHS:
        drawn = 1 + 3 * rng.standard_normal((400, 2)) / n**0.5
        middle = drawn.mean(axis=0)
        near = middle + (drawn - middle) / numpy.array([factor, other])
        samples.append(Draws(n, numpy.concatenate([near, drawn], axis=1), numpy.full(4, 1e-6)))
    source = SimpleNamespace(labels=("a", "b", "a, as drawn", "b, as drawn"))
    claims = (Claim("a", 1.0), Claim("b", 1.0), Claim("b", 1.0, statistic="covariance"))
    asked = WithControls(source, WIDTHS, claims, (Series(),) * 3, 0.01, (), ((0.0, 15.0),) * 3)
    (told,) = asked.told(samples)
    (times,) = re.findall(r"worth ([\d.e+]+) times as many", told)
    assert float(times) == pytest.approx(worth, rel=0.06)
    assert len(times.replace(".", "").lstrip("0")) <= 3, "two digits"
