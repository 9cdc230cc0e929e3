"""Kernels of sums of tokens that are named one by one, against means over the Gaussian law of the tokens."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.numbers.sobol import normal_points

X = np.random.default_rng(0).standard_normal((2, 3, 2))


def relu_kernel(a, b):
    """E relu(u·a) relu(u·b)."""
    size = np.linalg.norm(a) * np.linalg.norm(b)
    angle = np.arccos(np.clip(a @ b / size, -1, 1))
    return size * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)


def tokens():
    """Draws of W relu(Uξ) at both tokens of both inputs, (4, points)."""
    places = [X[i, :, t] for i in range(2) for t in range(2)]
    gram = np.array([[relu_kernel(a, b) for b in places] for a in places])
    return np.linalg.cholesky(gram) @ normal_points(4, 1 << 17, (3,)).T


#: a function of a vector with two tokens as networks write it, and of the tokens as numbers
CASES = {
    "relu(a + b)": (lambda x, a, b: tp.relu(a + b), lambda a, b: np.maximum(a + b, 0)),
    "tanh(a + b)": (lambda x, a, b: tp.tanh(a + b), lambda a, b: np.tanh(a + b)),
    "relu(3a + 2b)": (lambda x, a, b: tp.relu(3 * a + 2 * b), lambda a, b: np.maximum(3 * a + 2 * b, 0)),
    "relu(Σx + a)": (lambda x, a, b: tp.relu(tp.sum(x, over="token") + a), lambda a, b: np.maximum(2 * a + b, 0)),
    "sin(a) + sin(a + b)": (lambda x, a, b: tp.sin(a) + tp.sin(a + b), lambda a, b: np.sin(a) + np.sin(a + b)),
    "a sin(a + b)": (lambda x, a, b: a * tp.sin(a + b), lambda a, b: a * np.sin(a + b)),
    "a relu(a) + b": (lambda x, a, b: a * tp.relu(a) + b, lambda a, b: a * np.maximum(a, 0) + b),
    "relu(a + b + tanh a)": (
        lambda x, a, b: tp.relu(a + b + tp.tanh(a)),
        lambda a, b: np.maximum(a + b + np.tanh(a), 0),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_distances_of_members_are_no_distances_of_sums(name):
    function, numbers = CASES[name]

    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = W @ tp.relu(tp.sum(U * ξ, over="d"))
        return v * function(x, x.sel(token=0), x.sel(token=1))

    pair = tp.derive(net, tp.Kernels(train=("v",))).evaluate(X)
    z = tokens()
    outputs = numbers(z[0], z[1]), numbers(z[2], z[3])
    means = [[np.mean(f * g) for g in outputs] for f in outputs]
    assert pair.nngp == pytest.approx(np.array(means), abs=2e-3)  # of 2¹⁷ Sobol points; it was off by 0.1 and more
    assert np.max(pair.nngp_error) < 1e-3


def test_the_gradient_of_a_sum_of_members():
    """Θ of v relu(a + b) with a = U ξ₀ and b = U ξ₁ is that of the perceptron at ξ₀ + ξ₁."""

    @tp.network
    def of_members(ξ: tp.Input["d", "token"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.relu(x.sel(token=0) + x.sel(token=1))

    @tp.network
    def of_sums(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.relu(tp.sum(U * ξ, over="d"))

    found, plain = tp.derive(of_members, tp.Kernels()).evaluate(X), tp.derive(of_sums, tp.Kernels()).evaluate(X.sum(2))
    assert found.nngp == pytest.approx(plain.nngp)
    assert found.ntk == pytest.approx(plain.ntk)
