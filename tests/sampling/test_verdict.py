"""Verdicts: true limits are accepted, a wrong value beside each is rejected, and what is refused.

Each limit is a number made here, from a published formula or an integral.
"""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
from checks import run_check

import tplimits as tp
from tplimits.errors import CheckError, EvaluationError
from tplimits.sampling.verdict import Claim, Verdict

pytestmark = pytest.mark.sampling


def normal_mean(f):
    """E f(g) for a smooth f of a standard normal, by Gauss-Hermite quadrature."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(120)
    return float(weights @ f(nodes)) / math.sqrt(2 * math.pi)


PAIRS = 2 / math.sqrt(math.pi)
SECH2 = normal_mean(lambda g: numpy.cosh(g) ** -2.0)
#: ⟨relu(Wa)|relu(Wb)⟩ for orthogonal a, b of norm 1 (Cho & Saul 2009, J₁(π/2)/2π)
ORTHOGONAL = 1 / (2 * math.pi)

#: program, true claim, wrong values: the dot-ket dropped, 2 % off, or 0.05 off where the limit is zero
CASES = {
    "tied": (Claim("return", SECH2), 0.98 * SECH2, 1.02 * SECH2, 0.0),
    "twice": (Claim("return", 0.0), 0.05, -0.05),
    "pairs": (Claim("return", PAIRS), 0.98 * PAIRS, 1.02 * PAIRS),
    "fluctuation": (Claim("return[0]", 1.0, statistic="covariance"), 0.98, 1.02),
    "fluctuation of two": (Claim("return[0]", 0.0, 0.0, "covariance", "return[1]"), 0.05, -0.05),
    "constant": (Claim("return", 1.0), 1.0001),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_true_limit_is_accepted_and_a_wrong_one_on_the_same_draws_is_not(programs, seed, name):
    program = getattr(programs, name.split()[0])
    claim, *wrong = CASES[name]
    verdict = run_check(program, [claim], seed=seed, progress=False)
    assert verdict.accepted, verdict
    for value in wrong:
        assert verdict.worst.fit.two_sided(value, 0.0)[1] <= verdict.level, verdict


def test_a_wrong_claim_is_rejected_by_draws_chosen_for_it(programs, seed):
    for wrong in (0.98 * PAIRS, 1.02 * PAIRS):
        verdict = run_check(programs.pairs, [Claim("return", wrong)], seed=seed, progress=False)
        assert not verdict.accepted, verdict


def test_the_draws_of_a_check_can_be_asked_for_again(programs, seed):
    first = run_check(programs.pairs, [Claim("return", PAIRS)], seed=seed, progress=False)
    again = run_check(programs.pairs, [Claim("return", PAIRS)], seed=seed, draws=first.draws, progress=False)
    assert again.rows[0].fit == first.rows[0].fit


def test_tuples_of_neurons_are_sampled_at_smaller_widths(programs, seed):
    """Mean of the maximum of three independent normals: 3/(2√π), not the 1/√π of two."""
    options = {"draws": (400, 200, 100, 50), "seed": seed, "progress": False}
    verdict = run_check(programs.triples, [Claim("return", 3 / (2 * math.sqrt(math.pi)))], **options)
    assert verdict.accepted and verdict.widths == (16, 32, 64, 128), verdict
    assert "Widths were kept to n ≤ 128: `triples` averages over tuples of neurons." in verdict.sentence
    assert not run_check(programs.triples, [Claim("return", 1 / math.sqrt(math.pi))], **options).accepted


def test_several_claims_are_judged_together(programs, seed):
    labels = [f"⟨return[token={i}]|return[token={j}]⟩" for i in range(3) for j in range(i, 3)]
    values = [0.5, ORTHOGONAL, ORTHOGONAL, 0.5, ORTHOGONAL, 0.5]
    claims = [Claim(label, value) for label, value in zip(labels, values, strict=True)]
    verdict = run_check(programs.tokens, claims, draws=1000, widths=(16, 32, 64), seed=seed, progress=False)
    assert verdict.accepted and len(verdict.rows) == 6, verdict
    claims[3] = Claim(labels[3], 0.6)
    verdict = run_check(programs.tokens, claims, draws=1000, widths=(16, 32, 64), seed=seed, progress=False)
    assert [row.accepted for row in verdict.rows] == [i != 3 for i in range(6)], verdict
    assert verdict.worst.claim.label == labels[3] and "Holm over 6 claims" in verdict.sentence


def test_shaped_programs_are_fitted_in_powers_of_the_root(programs, seed):
    """⟨(1 + 1/√n) relu(x)⟩ tends to 1/√(2π), from 1/√n away: L + b/n would miss it."""
    limit = 1 / math.sqrt(2 * math.pi)
    verdict = run_check(programs.shaped, [Claim("return", limit)], seed=seed, progress=False)
    assert verdict.accepted and "L + b/√n + c/n over widths 16 to 512" in verdict.sentence, verdict
    assert verdict.rows[0].fit.two_sided(1.05 * limit, 0.0)[1] < 0.01


def test_the_seed_and_not_the_executor_fixes_the_verdict(programs):
    options = {"widths": (16, 32, 64), "draws": 300, "progress": False}
    claims = [Claim("return", SECH2)]
    alone, other = (run_check(programs.tied, claims, seed=s, **options) for s in (1, 2))
    assert alone.rows[0].intercept != other.rows[0].intercept
    with ThreadPoolExecutor(3) as threads:
        verdict = run_check(programs.tied, claims, seed=1, executor=threads, **options)
    assert verdict.rows[0].fit == alone.rows[0].fit and verdict.table == alone.table


def test_draws_can_differ_between_widths(programs):
    verdict = run_check(programs.pairs, [Claim("return", 1.1)], widths=(16, 32, 64), draws=(30, 20, 10), progress=False)
    assert verdict.draws == (30, 20, 10) and verdict.widths == (16, 32, 64)


def test_too_few_draws_are_told_and_more_are_advised(programs, seed):
    verdict = run_check(
        programs.tied, [Claim("return", SECH2)], widths=(16, 32, 64), draws=20, seed=seed, progress=False
    )
    assert (
        "Too few draws: an error of the claim on return below" in verdict.sentence and "use draws=(" in verdict.sentence
    )


def test_ratios_and_given_values_reach_the_program(programs, seed):
    """⟨z|z⟩ of z = Wᵀrelu(Wx) at k/n = ρ: ρ²/4 + ρ/2, which is 2 at ρ = 2."""
    claims = [Claim("return", 2.0)]
    options = {"widths": (32, 64, 128), "draws": 400, "seed": seed, "progress": False}
    assert run_check(programs.two_widths, claims, ratios={"k": 2}, **options).accepted
    assert not run_check(programs.two_widths, claims, **options).accepted

    @tp.program
    def scaled(x: tp.Vector, *, c):
        return tp.avg(c * x * x)

    assert run_check(scaled, [Claim("return", 3.0)], given={"c": 3}, **options).accepted
    with pytest.raises(EvaluationError, match="the constant `c` of `scaled` has no value"):
        run_check(scaled, [Claim("return", 3.0)], **options)


def test_the_error_of_the_claim_is_part_of_the_judgement(programs, seed):
    options = {"widths": (16, 32, 64), "draws": 2000, "seed": seed, "progress": False}
    assert not run_check(programs.pairs, [Claim("return", 1.2)], **options).accepted
    assert run_check(programs.pairs, [Claim("return", 1.2, error=0.05)], **options).accepted


def test_verdicts_are_frozen_values_that_read_well(programs, seed):
    verdict = run_check(programs.pairs, [Claim("return", 1.3)], widths=(64, 256), draws=100, seed=seed, progress=False)
    assert isinstance(verdict, Verdict) and not verdict.accepted and 0 < verdict.seconds < 600
    assert repr(verdict) == f"{verdict.sentence}\n{verdict.table}"
    row = verdict.rows[0]
    assert row.z < 0 and row.p == row.p_holm < 1e-6 and row.b < 0 and row.lack_of_fit == 1.0
    with pytest.raises(AttributeError):
        verdict.accepted = True


def test_equal_verdicts_are_equal(programs):
    def verdict(seed):
        return run_check(programs.pairs, [Claim("return", 1.1)], widths=(16, 32, 64), draws=10, seed=seed)

    first, second, other = verdict(0), verdict(0), verdict(1)
    assert first == second and hash(first) == hash(second) and first.rows[0] == second.rows[0]
    assert first != other and first.rows[0] != other.rows[0] and first.rows[0].moments != 1


def test_draws_that_do_not_fit_are_told(programs, monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(sys.modules[Verdict.__module__], "sample_fixed", full)
    with pytest.raises(CheckError, match=r"widths=\(16, 32\), draws=10: the draws do not fit into memory"):
        run_check(programs.pairs, [Claim("return", 1.1)], widths=(16, 32), draws=10)


def test_progress_is_told(programs):
    seen = []
    run_check(
        programs.pairs,
        [Claim("return", 1.1)],
        widths=(16, 32),
        draws=10,
        progress=lambda done, total, text: seen.append((done, total)),
    )
    assert seen[0][0] == 0 and seen[-1][0] == pytest.approx(seen[-1][1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"widths": (64,)}, r"widths=\(64,\): the fit of L \+ b/n needs at least 2 widths, better 4"),
        ({"widths": ()}, "needs at least 2 widths"),
        ({"widths": (64, 0)}, r"widths=\(64, 0\): widths are positive whole numbers"),
        ({"widths": (64, 128.5)}, "widths are positive whole numbers"),
        ({"widths": (128, 64)}, r"widths=\(128, 64\): widths increase"),
        ({"widths": (64, 64)}, "widths increase, each larger than the one before"),
        ({"widths": 64}, r"widths=64: give a sequence such as \(64, 128, 256, 512\)"),
        ({"draws": 7}, "draws=7: each width needs at least 8 draws for a standard error; leave draws out"),
        ({"draws": (100, 100, 7, 100)}, "each width needs at least 8 draws"),
        ({"draws": (100, 100)}, "2 numbers for 4 widths; give one for each"),
        ({"draws": 10.5}, "draws=10.5: give a whole number, or one for each width"),
        ({"draws": True}, "draws=True: give a whole number"),
        ({"draws": "many"}, "draws='many': "),
        ({"level": 0}, "level=0: the level is a probability between 0 and 1"),
        ({"level": 1.0}, "level=1.0: the level is a probability"),
        ({"level": math.nan}, "level=nan: the level is a probability"),
        ({"level": "low"}, "level='low': the level is a probability"),
        ({"seed": -1}, "seed=-1: a seed is a whole number, 0 or more"),
        ({"seed": 0.5}, "seed=0.5: a seed is a whole number"),
        ({"seed": "a"}, "seed='a': a seed is a whole number"),
        ({"executor": 3}, r"executor=3: give an executor of concurrent\.futures"),
        ({"ratios": 3}, "ratios=3: give names and numbers"),
        ({"given": {3: 1}}, "3 is not a name"),
        ({"widths": (10**20, 10**21), "draws": 8}, "does not fit into 1 GB; give widths up to"),
    ],
)
def test_refusals(programs, options, words):
    with pytest.raises(CheckError, match=words):
        run_check(programs.pairs, [Claim("return", 1.0)], progress=False, **options)


def test_series_with_more_terms_need_more_widths(programs):
    with pytest.raises(CheckError, match=r"the fit of L \+ b/√n \+ c/n needs at least 3 widths, better 5"):
        run_check(programs.shaped, [Claim("return", 0.4)], widths=(64, 128))


def test_widths_above_the_cap_that_cannot_be_told_apart(programs):
    with pytest.raises(
        CheckError, match="`triples` is sampled up to width 128 only, and these widths are not distinct"
    ):
        run_check(programs.triples, [Claim("return", 0.8)], widths=(1000, 1001))


def test_unknown_labels_and_samples_that_are_not_finite(programs):
    with pytest.raises(CheckError, match="no observable `θ` to check; the program has return"):
        run_check(programs.pairs, [Claim("θ", 1.0)])
    with pytest.raises(CheckError, match=r"`return` is not finite in \d+ of \d+ draws at width n = 64"):
        run_check(programs.logarithm, [Claim("return", 1.0)], progress=False)
