"""Covariances of explicit steps are kept positive."""

from __future__ import annotations

import numpy as np
import published
import pytest

from tplimits.regimes.depth.numbers.ordinary import _positive


@pytest.mark.parametrize("least", [0.3, -1e-14, -0.5])
def test_negative_eigenvalues_are_dropped_and_told_beyond_rounding(least):
    """Of the symmetric part: what is not symmetric is rounding."""
    vectors = np.linalg.qr(published.random_covariance(3, seed=0))[0]
    values = np.array([least, 1.0, 2.0])
    skew = np.array([[0.0, 0.1, 0.0], [-0.1, 0.0, 0.2], [0.0, -0.2, 0.0]])
    found, changed = _positive((vectors * values) @ vectors.T + skew)
    np.testing.assert_allclose(found, (vectors * values.clip(0)) @ vectors.T, atol=1e-14)
    assert changed == (least < -0.1)


def test_what_is_not_finite_is_left_alone():
    V = np.array([[1.0, np.inf], [np.inf, 1.0]])
    assert _positive(V)[0] is V and not _positive(V)[1]
