"""Tables that say −1: what is read there is 0, also of what is the same at all places, as the gradient of a bias is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import tplimits as tp

X = np.array([[[0.9, 0.7], [1.0, 0.2]], [[-0.7, -0.5], [-0.9, -0.5]]])


def tangent(f, *several):
    """Θ of the bias e of v·mean(f(y, e).take(token=places)), of places that are read one behind the other."""

    @tp.network
    def network(ξ: tp.Input["token", "d"], U: tp.Vector["d"], e: tp.Vector, v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        read = f(y, e)
        for places in several:
            read = read.take(token=places, axes=("token",))
        return v * tp.mean(read, over="token")

    return tp.derive(network.bind(token=2), tp.Kernels(train=("e",))).evaluate(X).ntk


SLOPE = integrate.quad(lambda z: stats.norm.pdf(z) / np.cosh(z) ** 4, -12, 12)[0]


@pytest.mark.parametrize(
    ("f", "square"),
    [(lambda y, e: y + 0.5 * e, 0.25), (lambda y, e: y + tp.tanh(e), SLOPE)],
    ids=["a bias", "a function of it"],
)
def test_a_gradient_that_is_the_same_at_all_tokens_is_none_where_no_token_is_read(f, square):
    """The mean is f(y[1])/2, or (f(y[1]) + f(y[0]))/2: each token that is read has a half of the slope of f in e."""
    assert tangent(f, [1, -1]) == pytest.approx(np.full((2, 2), square / 4), rel=1e-9)
    assert tangent(f, [1, 0]) == pytest.approx(np.full((2, 2), square), rel=1e-9)
    assert tangent(f, [-1, -1]) == pytest.approx(0)
    assert tangent(f, [1, -1], [0, 0]) == pytest.approx(np.full((2, 2), square), rel=1e-9)
    assert tangent(f, [1, -1], [1, 0]) == pytest.approx(np.full((2, 2), square / 4), rel=1e-9)
    assert tangent(f, [1, -1], [1, 1]) == pytest.approx(0)
