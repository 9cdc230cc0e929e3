"""Sixty random programs, networks, blocks and training runs against finite width; `make fuzz` judges a thousand."""

from __future__ import annotations

import pytest
from fuzz.cases import case, seeds
from fuzz.judging import judge

#: the first sixty seeds, of which `make test` judges twenty
FIRST, SEEDS = 20, seeds(0, 60)
#: refusals, and limits that cannot be compared, are counted by `make fuzz`; these may not happen at all
BAD = ("wrong", "foreign", "illegal", "slow")


@pytest.mark.sampling
@pytest.mark.parametrize("seed", [*SEEDS[:FIRST], *(pytest.param(s, marks=pytest.mark.long) for s in SEEDS[FIRST:])])
def test_a_random_case(seed):
    subject = case(seed)
    outcome = judge(subject)
    assert outcome.kind not in BAD, f"{outcome.kind}: {outcome.detail}\n{subject}"
