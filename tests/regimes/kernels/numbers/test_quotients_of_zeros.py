"""0/0 at inputs, tokens and picked entries that are 0: networks are NaN there, and every engine says so."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import tplimits as tp

QUOTIENTS = {
    "tanh": lambda z: tp.tanh(z) / z,
    "cos": lambda z: (1 - tp.cos(z)) / z,
    "logarithm": lambda z: z * tp.log(abs(z)),
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_an_input_that_is_zero(name):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * QUOTIENTS[name](tp.sum(U * ξ, over="d"))

    limit = tp.derive(net, tp.Kernels(train=("v",)))
    assert limit.evaluate([[1.0, 0.5], [1e-3, 0.0]]).nngp[1, 1] > 0
    with pytest.raises(tp.EvaluationError, match=r"where z1 is always 0.*networks divide by 0 there"):
        limit.evaluate([[1.0, 0.5], [0.0, 0.0]])


def test_a_zero_beside_other_inputs():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        z = tp.sum(U * ξ, over="d")
        return v * tp.tanh(z) / z

    limit = tp.derive(net, tp.Kernels(train=("v",)))
    for one, other in (([[1.0, 0.5]], [[0.0, 0.0]]), ([[0.0, 0.0]], [[1.0, 0.5]])):
        with pytest.raises(tp.EvaluationError, match="always 0"):
            limit.evaluate(one, other)


def test_an_entry_that_nothing_is_read_for():
    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], v: tp.Vector):
        z = tp.sum(U * ξ, over="d").take(axes="token", token=[1, -1, 0])
        return v * tp.sum(tp.tanh(z) / z, over="token")

    with pytest.raises(tp.EvaluationError, match="always 0"):
        tp.derive(net, tp.Kernels(train=("v",))).evaluate([[[1.0, 1.0, 1.0], [0.2, 0.2, 0.2]]])


def test_what_is_defined_at_zero_has_a_number_there():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        z = tp.sum(U * ξ, over="d")
        return v * (tp.gelu(z) + tp.relu(z) + abs(z) * z + tp.softplus(z))

    found = tp.derive(net, tp.Kernels(train=("v",))).evaluate([[0.0, 0.0]])
    np.testing.assert_allclose(found.nngp, [[np.log(2) ** 2]], rtol=1e-12)


def test_a_token_of_a_block_that_is_zero():
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        h = W @ x
        return x + U @ ((1 - tp.cos(h)) / h) / tp.sqrt(tp.n)

    sde = tp.derive(block, tp.Proportional())
    assert sde.drift_at([[1.0, 0.1], [0.1, 1.0]])[0, 0] > 0
    with pytest.raises(tp.EvaluationError, match="always 0"):
        sde.drift_at([[0.0, 0.0], [0.0, 1.0]])


def test_poles_that_are_none_stay_together_where_entries_are_picked():
    """Σ over two entries that are the same token: K and Θ are 4 times those of one, by quadrature."""

    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], v: tp.Vector):
        z = tp.sum(U * ξ, over="d").take(axes="token", token=[0, 0])
        return v * tp.sum((1 - tp.cos(z)) / z, over="token")

    found = tp.derive(net, tp.Kernels(train=("v", "U"))).evaluate([[[1.0, 0.5], [0.2, 1.0]]])
    s2 = 1.0**2 + 0.2**2
    f = lambda z: (1 - np.cos(z)) / z  # noqa: E731
    slope = lambda z: np.sin(z) / z - (1 - np.cos(z)) / z**2  # noqa: E731
    mean = lambda g: quad(lambda z: g(z) ** 2 * np.exp(-z * z / 2 / s2), 1e-9, 40)[0] * 2 / np.sqrt(2 * np.pi * s2)  # noqa: E731
    np.testing.assert_allclose(found.nngp, [[4 * mean(f)]], rtol=1e-7)
    np.testing.assert_allclose(found.ntk, [[4 * mean(f) + 4 * s2 * mean(slope)]], rtol=1e-7)
