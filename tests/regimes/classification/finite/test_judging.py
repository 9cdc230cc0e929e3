"""Verdicts on measured powers: their bounds, and whether another error would change them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tplimits.regimes.classification.finite.judging import (
    AGREES,
    ERRORS,
    GROWS,
    OPEN,
    VANISHES,
    Power,
    Rule,
    is_certain,
    judged,
    measured_power,
    two_powers,
)

EARLY, LATE, OUTPUT = Rule(late=False), Rule(late=True), Rule(late=True, output=True)


@pytest.mark.parametrize(
    ("power", "error", "rule", "verdict"),
    [
        (0.24, 0.0, EARLY, AGREES),  # growth from half a gap on, which is a quarter
        (0.26, 0.0, EARLY, GROWS),
        (0.26, 0.05, EARLY, GROWS),  # and by two errors above 0.15
        (0.26, 0.06, EARLY, AGREES),
        (-0.9, 0.0, EARLY, AGREES),
        (-0.39, 0.0, LATE, AGREES),  # smallness from 0.8 of a gap on, of the output from half of one
        (-0.41, 0.0, LATE, VANISHES),
        (-0.26, 0.0, OUTPUT, VANISHES),
        (-0.26, 0.01, OUTPUT, AGREES),
        (0.0, 0.24, LATE, AGREES),
        (0.0, 0.26, LATE, OPEN),
        (0.26, 0.0, Rule(late=False, gap=1.0), AGREES),
        (-0.41, 0.0, Rule(late=True, least=-0.5), AGREES),
        (0.26, 0.06, Rule(late=False, errors=1.0), GROWS),
    ],
)
def test_bounds_of_verdicts(power, error, rule, verdict):
    assert judged(Power(power, error, ()), 0, rule) == verdict
    assert judged(Power(power + 1, error, ()), 1, rule if rule.least is None else Rule(late=True, least=0.5)) == verdict


@pytest.mark.parametrize("rule", (EARLY, LATE, OUTPUT))
def test_a_verdict_is_certain_where_no_error_up_to_twice_its_own_changes_it(rule):
    """What is decided has to stay so; agreement may become open where neither growth nor smallness was seen."""
    seen = set()
    for power, error in itertools.product((-1.0, -0.45, -0.3, 0.0, 0.3, 0.45, 1.0), (0.0, 0.02, 0.1, 0.2, 0.4)):
        found = [judged(Power(power, f * error, ()), 0, rule) for f in (0, 1, 2)]
        certain = is_certain(Power(power, error, ()), 0, rule)
        decided = {v for v in found if v != OPEN}
        assert certain == (len(set(found)) == 1 or (decided == {AGREES} and OPEN in found)), (power, error, found)
        seen.add(certain)
    assert seen == {True, False}


@pytest.mark.parametrize("many", (1, 2, 5))
def test_errors_are_those_of_least_squares(many):
    """Of seeds by their pooled variance, of means by their distance from the line, whichever is larger."""
    rng, widths = np.random.default_rng(many), (16, 32, 64, 128)
    for noise, bend in ((0.3, 0.0), (0.01, 0.3)):
        logs = noise * rng.standard_normal((4, many)) + bend * np.array([[1], [-1], [-1], [1]])
        found = measured_power(widths, np.exp(logs))
        x, means = np.log(widths) - np.log(widths).mean(), logs.mean(axis=1)
        power, line = np.polyfit(x, means, 1)
        assert found.power == pytest.approx(power)
        pooled = logs.var(axis=1, ddof=1).mean() / many if many > 1 else 0.0
        off = ((means - power * x - line) ** 2).sum() / 2
        assert found.error == pytest.approx(np.sqrt(max(pooled, off) / (x**2).sum()))
        assert found.spread == pytest.approx(np.sqrt(pooled))


@pytest.mark.parametrize("widths", [(16, 64), (16, 32, 64), (8, 16, 32, 64, 128)])
def test_two_powers_are_a_weighted_fit(widths):
    """Errors by the scatter, or by the distance from the fit where that says more; with two widths nothing is left."""
    n = np.array(widths, dtype=float)
    for bend, spread in ((0.0, 0.02), (0.3, 0.02), (0.3, 1e-6)):
        sizes = (2 * n**0.5 + 3 * n**0.25) * (1 + bend * np.cos(np.arange(len(n))))
        found = two_powers(widths, sizes, spread, 0.5, gap=0.25)
        weights = 1 / (max(spread, 1e-3) * sizes)
        columns = np.stack([n**0.5, n**0.25], axis=1) / [n[-1] ** 0.5, n[-1] ** 0.25]
        fit, *_ = np.linalg.lstsq(columns * weights[:, None], sizes * weights, rcond=None)
        off = ((sizes - columns @ fit) ** 2 * weights**2).sum() / max(len(n) - 2, 1)
        scatter = np.linalg.inv((columns * weights[:, None]).T @ (columns * weights[:, None]))
        assert [found.leading, found.second] == pytest.approx(fit, rel=1e-6)
        assert found.error == pytest.approx(np.sqrt(max(1.0, off) * scatter[0, 0]), rel=1e-5)
        assert found.share == pytest.approx(fit[0] / sizes[-1], rel=1e-6)
        assert found.leads == (found.leading > ERRORS * found.error and found.share > 0.5)


@pytest.mark.parametrize("far", [1.0, 1e-300, 1e300])
def test_powers_and_sizes_of_networks_that_run_away_are_fitted_as_all_others(far):
    """n^121.5 at width 512 is no floating-point number any more, and squares of sizes are none."""
    n = np.array([64.0, 128.0, 256.0, 512.0])
    first = two_powers(n, far * (n / 512) ** 21.5, 0.1, 121.5, gap=100.0)
    assert first.second == pytest.approx(far, rel=1e-6) and not first.leads
    other = two_powers(n, far * (n / 512) ** 21.5, 0.1, 21.5)
    assert other.leading == pytest.approx(far, rel=1e-6) and other.leads


def test_networks_that_have_run_away_tell_no_two_powers():
    """A width whose size is 10^40 times smaller outweighs all others: no term is certain, and nothing is singular."""
    found = two_powers((64, 128, 256, 512), (1e40, 1e42, 1.0, 1e45), 0.1, 0.0)
    assert not found.leads and found.error == math.inf
    fallen = measured_power((64, 128, 256, 512), [[s, 1.1 * s] for s in (1e90, 1e60, 1e30, 1.0)])
    assert judged(fallen, 0, LATE) == VANISHES
