"""Coefficients of forms: numbers are judged by their size, roots in them included."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.3, 0.4], [0.4, 0.9]])


def test_roots_of_long_fractions_are_as_large_as_they_are():
    """√p/2⁵³ is no rounding that arrays have left: b = √(a c) (V_αx̄ + V_βx̄)."""
    a, c = 0.5123456789012345, 0.3678794411714423

    @tp.block
    def beside(x: tp.State["token"], W: tp.Matrix):
        v = W @ x
        return tp.sqrt(1 - a) * x + tp.sqrt(a) * v + tp.sqrt(c) * tp.mean(v, over="token") / tp.n

    sde = tp.derive(beside, tp.Proportional())
    mean = V.mean(axis=0)
    np.testing.assert_allclose(sde.drift_at(V), np.sqrt(a * c) * (mean[:, None] + mean), rtol=1e-12)
    assert "sqrt" not in repr(sde)


def test_an_open_size_is_asked_for_by_its_name():
    @tp.block
    def heads(x: tp.State["token"], W: tp.Matrix["n", "n", "head"]):
        return x + tp.sum(W @ x, over="head") / tp.sqrt(tp.n)

    sde = tp.derive(heads, tp.Proportional())
    with pytest.raises(tp.EvaluationError, match="the size of the axis `head` has no value: give head=…"):
        sde.drift_at(V)
    np.testing.assert_allclose(sde.drift_at(V, head=3), 3 * V)
