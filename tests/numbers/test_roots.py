"""Roots of covariances in which variables have no variance."""

from __future__ import annotations

import numpy as np
import pytest

from tplimits.numbers.roots import root


@pytest.mark.parametrize("seed", range(5))
def test_what_has_no_variance_is_zero_exactly(seed):
    """Rounding of 10⁻¹⁷ would be on a side of a jump at zero."""
    values = np.random.default_rng(seed).standard_normal((6, 3, 4))
    values[:, :, ::2] = 0
    covariance = (values.transpose(0, 2, 1) @ values)[:, [1, 0, 3, 2]][:, :, [1, 0, 3, 2]]
    still = np.einsum("kii->ki", covariance) == 0
    found = root(covariance)
    assert still.any()
    assert (found[still] == 0).all()
    assert found @ found.transpose(0, 2, 1) == pytest.approx(covariance, abs=1e-12)
