"""Verdicts on measured powers: their bounds, and whether another error would change them."""

from __future__ import annotations

import itertools

import pytest

from tplimits.regimes.classification.finite.judging import (
    AGREES,
    GROWS,
    OPEN,
    VANISHES,
    Power,
    Rule,
    is_certain,
    judged,
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
