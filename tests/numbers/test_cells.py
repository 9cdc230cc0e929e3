"""The rules of one box: exact for the polynomials that they are built for."""

from __future__ import annotations

import pytest

from tplimits.numbers.cells import _coarse, _fejer


@pytest.mark.parametrize("count", [5, 9, 11, 15])
def test_rules_integrate_polynomials(count):
    nodes, weights = _fejer(count)
    assert len(nodes) == count and (nodes > 0).all() and (nodes < 1).all() and (weights > 0).all()
    for power in range(count):
        assert weights @ nodes**power == pytest.approx(1 / (power + 1), rel=1e-12)
    coarse = _coarse(count)
    for power in range(count // 2):
        assert coarse @ nodes**power == pytest.approx(1 / (power + 1), rel=1e-12)
    assert abs(coarse - weights).max() > 1e-3
