"""Kernels that rounding decides about: functions steep at a scalar that is 0 in disguise."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = [[1.3], [0.7]]
#: by Stein's lemma, and of a half of a square
ZEROS = {
    "x tanh x": lambda x: tp.avg(x * tp.tanh(x)) - tp.avg(x * x) * tp.avg(1 - tp.tanh(x) ** 2),
    "x sin x": lambda x: tp.avg(x * tp.sin(x)) - tp.avg(x * x) * tp.avg(tp.cos(x)),
    "relu²": lambda x: 2 * tp.avg(tp.relu(x) ** 2) - tp.avg(x * x),
}
STEEP = {
    "tanh": lambda s, x, W: tp.tanh(1e17 * s * x),
    "clip": lambda s, x, W: tp.clip(1e17 * s * x, -1, 1),
    "an image": lambda s, x, W: tp.tanh(W @ (1e17 * s * x)),
    "a scalar": lambda s, x, W: tp.tanh(1e17 * s) * x,
    "a bell": lambda s, x, W: tp.exp(-1e32 * s**2 * x**2),
    "a multiple": lambda s, x, W: 1e17 * s * x,
}


def kernel(zero, function, named=True):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        s = zero(x)
        return v * function(s.named("s") if named else s, x, W)

    return tp.derive(network, tp.Kernels()).evaluate(X).nngp


@pytest.mark.parametrize("function", STEEP)
@pytest.mark.parametrize("zero", ZEROS)
def test_what_rounding_decides_has_no_value(zero, function):
    """tanh(10¹⁷ s x) had K = .96 for 0."""
    with pytest.raises(tp.EvaluationError, match="a kernel has no settled value, as `s` in it is 0 within its error"):
        kernel(ZEROS[zero], STEEP[function])


@pytest.mark.parametrize("zero", ZEROS)
def test_whatever_the_zero_is_called(zero):
    with pytest.raises(tp.EvaluationError, match="0 within its error"):
        kernel(ZEROS[zero], STEEP["tanh"], named=False)


@pytest.mark.parametrize("zero", ZEROS)
def test_zeros_that_decide_nothing(zero):
    """s is known to 10⁻¹⁵: what is less steep than that has its value; so has what is no zero."""
    assert kernel(ZEROS[zero], lambda s, x, W: tp.tanh(1e7 * s * x)) == pytest.approx(0, abs=1e-12)
    plain = np.array(X) @ np.transpose(X)
    assert kernel(ZEROS[zero], lambda s, x, W: x + 1e5 * s * x) == pytest.approx(plain, rel=1e-8)
    found = kernel(lambda x: ZEROS[zero](x) + 1e-3, lambda s, x, W: tp.clip(1e17 * s * x, -1, 1))
    assert found == pytest.approx(1, abs=1e-9)


def test_a_scalar_at_which_two_functions_cross():
    """max(x, s x) for s = 2 E relu(h)/E |h| = 1: both 1 − s and s − 1 stand in Θ, and each is 0."""

    def tangent(height):
        @tp.network
        def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            h = W @ (x / tp.sqrt(tp.avg(x * x) + 0.1))
            s = height * tp.avg(tp.relu(h)) / tp.avg(tp.abs(h))
            return v * tp.softplus(tp.maximum(x, x * s))

        return tp.derive(network, tp.Kernels(train=("U",))).evaluate([[0.7, 0.3]]).ntk.item()

    x = np.linspace(-8, 8, 4001)
    weights = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    expected = 0.58 * weights @ (1 + np.exp(-np.sqrt(0.58) * x)) ** -2
    assert tangent(2) == pytest.approx(expected, rel=1e-9)
    assert tangent(2.2) != pytest.approx(expected, rel=1e-2)  # x where x < 0, 1.1 x elsewhere
