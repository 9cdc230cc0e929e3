"""Functions of scalars of order 1 in stacks: each block has the law of its scalars at the V that it meets."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 1.5]])


def ordinary(temperature, inside=1):
    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        Y = tp.sqrt(tp.n) * temperature * tp.avg((WQ @ (inside * x)) * (WK @ x).rename(token="key"))
        return x + tp.sum(tp.softmax(Y, over="key") * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    return attention


def times(number):
    @tp.block
    def scaled(x: tp.State["token"], W: tp.Matrix):
        return number * (W @ x)

    return scaled


def drift(*blocks):
    return tp.derive(tp.stack(*blocks), tp.Proportional()).drift_at(V)


@pytest.mark.parametrize("size", [2, 3])
def test_logits_of_a_block_that_meets_a_larger_covariance(size):
    """Logits are quadratic in the state: V four times as large is a temperature a fourth as high."""
    found = drift(times(size), ordinary(1), times(1 / size))
    np.testing.assert_allclose(found, drift(ordinary(size**2)), rtol=1e-9)
    assert np.abs(found - drift(ordinary(1))).max() > 0.05


def test_a_block_that_stands_at_two_sizes_of_the_state():
    one = ordinary(1)
    found = drift(one, times(2), one, times(0.5))
    np.testing.assert_allclose(found, drift(one) + drift(ordinary(4)), rtol=1e-9)


@pytest.mark.parametrize("second", [ordinary(1), ordinary(3), ordinary(1, inside=3)], ids=["same", "hotter", "larger"])
def test_blocks_of_one_name(second):
    np.testing.assert_allclose(drift(ordinary(1), second), drift(ordinary(1)) + drift(second), rtol=1e-9)


def test_arguments_of_one_name_are_small_or_not_in_each_block():
    @tp.block
    def shaped(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        v, Y = WV @ x, tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
        return v + tp.sum((tp.exp(Y) - 1) * v.rename(token="key"), over="key")

    sde = tp.derive(tp.stack(times(2), shaped, times(0.5), shaped, shaped), tp.Proportional())
    large, small = sorted(sde.spread_at(V, n=100).values(), reverse=True)
    assert large == pytest.approx(4 * small)
