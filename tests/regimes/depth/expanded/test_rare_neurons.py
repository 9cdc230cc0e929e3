"""Biases that leave few neurons active, and entries that are picked: the same drift as where they are written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 0.7]])


@pytest.mark.parametrize("std", [0, 0.2])
@pytest.mark.parametrize("bias", [-1.5, -2.3, -3.0])
def test_few_neurons_above_their_bias(bias, std):
    law = tp.init(mean=bias, std=std)

    @tp.block
    def vector(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, b: tp.Vector = law):
        return x + U @ (30 * tp.relu(W @ x + b)) / tp.sqrt(tp.n)

    found = tp.derive(vector, tp.Proportional()).drift_at(V)
    density = lambda z, s2: np.exp(-z * z / 2 / s2) / np.sqrt(2 * np.pi * s2)  # noqa: E731
    for a in range(2):
        wanted = 900 * quad(lambda z, a=a: (z + bias) ** 2 * density(z, V[a, a] + std**2), -bias, 12)[0]
        assert abs(found[a, a] - wanted) < 1e-6 * wanted


@pytest.mark.parametrize("number", [0, -1.0, 2.0])
@pytest.mark.parametrize("function", [tp.step, tp.sign, lambda z: tp.sqrt(abs(z))], ids=["step", "sign", "root"])
def test_a_number_for_a_bias_is_that_number(number, function):
    @tp.block
    def named(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, b: tp.Vector = number):
        return x + U @ function(W @ x + b) / tp.sqrt(tp.n)

    @tp.block
    def written(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + U @ function(W @ x + number) / tp.sqrt(tp.n)

    one, other = (tp.derive(block, tp.Proportional()).drift_at(V) for block in (named, written))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_entries_that_are_picked_inside_of_a_function():
    """E relu(u₀ + u₁ − 3)², u₀ + u₁ of variance V₀₀ + 2 V₀₁ + V₁₁, at every token; and tanh(u_a + u₀)."""

    @tp.block
    def taken(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        other = (W @ x).take(token=[1, 0], axes=("token",))
        return x + U @ tp.relu(W @ x + other - 3) / tp.sqrt(tp.n)

    @tp.block
    def selected(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + U @ tp.tanh((W @ x) * tp.avg(x * x.rename(token="key")).sel(key=0)) / tp.sqrt(tp.n)

    def mean(f, s2):
        return quad(lambda z: f(z) * np.exp(-z * z / 2 / s2) / np.sqrt(2 * np.pi * s2), -15, 15, limit=200)[0]

    found = tp.derive(taken, tp.Proportional()).drift_at(V)
    wanted = mean(lambda z: max(z - 3, 0) ** 2, V.sum())
    np.testing.assert_allclose(found, wanted, rtol=2e-2)
    chosen = tp.derive(selected, tp.Proportional()).drift_at(V)
    for a in range(2):
        assert abs(chosen[a, a] - mean(lambda z, a=a: np.tanh(z * V[a, 0]) ** 2, V[a, a])) < 1e-3
