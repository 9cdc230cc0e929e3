"""Warnings where L + b/n may be worse than L."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tplimits.regimes.finite_width.tails import worse_than_none


@pytest.mark.parametrize(
    ("limit", "variance", "order", "largest"),
    [
        (2.0, 0.0, 8, 0.2),  # a tenth of the limit
        (-2.0, 9.0, 4, 0.2),
        (2.0, 9.0, 9, 0.02),  # a hundredth beside high moments
        (0.0, 9.0, 4, 0.3),  # beside a limit 0, the deviation √(C/n) itself
        (1e-10, 9.0, 9, 0.03),
    ],
)
def test_a_share_of_the_limit_or_of_the_deviation(limit, variance, order, largest):
    n = 100
    for share, warned in ((0.99, False), (1.01, True), (-0.99, False), (-1.01, True)):
        e = SimpleNamespace(bias=share * largest * n, limit=limit, variance=variance)
        said = worse_than_none("s", e, n, order)
        assert bool(said) == warned
        assert ("moments of order 9" in said) == (warned and order == 9)
