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


@tp.program
def switched(t: tp.Vector, x: tp.Vector, a: tp.Vector):
    s = tp.sqrt(tp.n) * tp.avg(a * x)
    z = tp.relu(t) * tp.relu(s)
    return tp.avg(tp.step(z))


def test_arguments_of_jumps_that_hold_a_fluctuation_by_two_names():
    """½ where s > 0, 0 otherwise; it had been refused with "`n` has no numerical form"."""
    found = tp.derive(switched).evaluate()["return"]
    assert (found.value, found.variance) == pytest.approx((1 / 4, 1 / 16), abs=1e-12)
    of_networks = [float(switched.run(n=4096, seed=k)["return"]) for k in range(400)]
    assert np.mean(of_networks) == pytest.approx(1 / 4, abs=4 / 4 / 20)  # four errors
    assert abs(np.mean(of_networks) - 1 / 2) > 4 / 4 / 20  # as without s
