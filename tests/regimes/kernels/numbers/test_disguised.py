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
