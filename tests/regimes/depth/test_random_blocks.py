"""Random blocks with logits of order 1, their drift beside that of networks at two widths.

A drift is accepted within 5 standard errors of what networks of width 32 and 128 tend to as 1/n, and a third of what
they differ by for what is of higher order: with 60 blocks a right one is rejected in less than one run of a thousand.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import random_blocks

import tplimits as tp

pytestmark = pytest.mark.sampling
SEEDS = range(90)
WIDTHS, DRAWS = (32, 128), (24000, 6000)


def judged(seed: int, wrong: float = 1.0) -> str:
    """accepted, rejected, or the reason of a refusal; `wrong` multiplies the covariance that the drift is taken at."""
    case = random_blocks.case(seed)
    ratios = {"k": case.ratio} if '"k"' in case.source else None
    try:
        sde = tp.derive(case.block().bind(head=2) if case.heads else case.block(), tp.Proportional())
        value, error = sde.drift_estimate_at(wrong * case.V, ratios=ratios)
    except (tp.NoLimitError, tp.EvaluationError) as refused:
        return str(refused)
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        small, large = (case.networks(n, count, rng) for n, count in zip(WIDTHS, DRAWS, strict=True))
    limit = (4 * large[0] - small[0]) / 3
    spread = np.hypot(4 * large[1], small[1]) / 3
    within = 5 * np.hypot(spread, error) + np.abs(large[0] - small[0]) / 3 + 1e-9
    return "accepted" if (np.abs(value - limit) < within).all() else "rejected"


#: blocks that take a second together with their wrong twin
QUICK = (1, 2)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed in QUICK else (pytest.mark.long,)) for seed in SEEDS]
)
def test_drifts_are_those_of_networks(seed):
    assert judged(seed) == "accepted"


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed in QUICK else (pytest.mark.long,)) for seed in (*QUICK, *SEEDS[::6])]
)
def test_drifts_at_another_covariance_are_rejected(seed):
    assert judged(seed, wrong=1.3) == "rejected"
