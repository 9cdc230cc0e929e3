"""How many more particles would tell a mean over replicates from zero."""

import numpy as np
import pytest
import scipy.stats

from tplimits.regimes.training.numbers.replicates import may_vanish, particles_missing

VALUES = np.array([0.3, -0.1, 0.5, 0.2, -0.4, 0.6, 0.1, 0.2])


def test_errors_fall_with_the_root_of_the_particles():
    """Four of Student's standard errors of eight replicates: s/√8 times the quantile that four deviations have."""
    error = VALUES.std(ddof=1) / 8**0.5
    quantile = scipy.stats.t(7).ppf(scipy.stats.norm.cdf(4))
    assert particles_missing(VALUES) == pytest.approx((quantile * error / VALUES.mean()) ** 2)
    assert particles_missing(-3 * VALUES) == pytest.approx(particles_missing(VALUES))


@pytest.mark.parametrize(("many", "open_"), [(1.0, True), (0.98, True), (1.02, False)])
def test_with_so_many_a_mean_is_told_from_zero(many, open_):
    factor = particles_missing(VALUES) if many != 1 else 1
    mean = VALUES.mean()
    assert may_vanish(mean + (VALUES - mean) / np.sqrt(many * factor), np.zeros(len(VALUES))) == open_
