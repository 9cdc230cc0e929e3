"""Which vectors are linear in fresh ones: sums of products, however they are written."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.3], [-0.4, 1.2]])


@tp.network
def factored(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, b: tp.Vector, c: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return (a + 2 * b) * tp.exp(-(x**2)) + c * tp.sin(x)


@tp.network
def expanded(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, b: tp.Vector, c: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return a * tp.exp(-(x**2)) + 2 * b * tp.exp(-(x**2)) + c * tp.sin(x)


def test_a_sum_of_readout_vectors_beside_another_one():
    """Products inside of a sum are multiplied out too: it was refused."""
    one, other = (tp.derive(net, tp.Kernels()).evaluate(X) for net in (factored, expanded))
    assert one.nngp == pytest.approx(other.nngp, rel=1e-12) and one.ntk == pytest.approx(other.ntk, rel=1e-12)
