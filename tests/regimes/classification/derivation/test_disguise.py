"""Zeros at generic data: a factor that is 0 on one side of the data alone is none."""

from __future__ import annotations

import pytest

import tplimits as tp


@pytest.mark.parametrize("least", [3.0, -3.0])
def test_a_dead_side_of_the_data_is_no_zero(least):
    """f₀ ~ n^(1/2) where |ξ|² is above what it is at small data."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        return tp.relu(tp.sum(ξ * ξ, over="d") - least) * tp.relu(W @ x)

    assert tp.classify(net, tp.NTP, tp.SGD()).regime == "unstable"


def test_what_is_zero_at_all_data_is_a_zero():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        return tp.relu(-tp.sum(ξ * ξ, over="d")) * tp.relu(W @ x)

    with pytest.raises(tp.NoLimitError, match="sums to 0 over its neurons"):
        tp.classify(net, tp.NTP, tp.SGD())
