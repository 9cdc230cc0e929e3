"""Limits that are means of a few replicates: their errors are estimates, and checks know how good."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tplimits.sampling.estimate import Fit

LEVEL, SEEDS = 0.01, 1_000


def rejected(degrees, finite_error):
    """How often a true claim is rejected whose value is the mean of four replicates."""
    rng = np.random.default_rng(4)
    replicates = rng.standard_normal((SEEDS, 4))
    values, errors = replicates.mean(axis=1), replicates.std(axis=1, ddof=1) / 2
    found = rng.standard_normal(SEEDS) * finite_error
    fits = (Fit(x, finite_error, 400.0, (), 0.0, 0, 1.0) for x in found)
    ps = [fit.two_sided(v, e, degrees)[1] for fit, v, e in zip(fits, values, errors, strict=True)]
    return float((np.array(ps) <= LEVEL).mean())


@pytest.mark.long
@pytest.mark.parametrize("finite_error", [0.01, 0.1, 0.5, 2.0])
def test_true_limits_of_four_replicates_are_rejected_as_often_as_the_level_says(finite_error):
    found = rejected(3, finite_error)
    above = stats.binom.ppf(0.999, SEEDS, LEVEL) / SEEDS
    assert found <= above


@pytest.mark.long
def test_taken_as_known_they_would_be_rejected_six_times_as_often():
    assert rejected(math.inf, 0.01) > 5 * LEVEL
