"""n^(−1/4) |S/√n + c/√n|^(3/2) is |S + c|^(3/2)/n, wherever the power of n stands beside the function."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import tplimits as tp

V = np.array([[1.0, 0.7], [0.7, 1.4]])
BIAS = np.array([[0.3, -0.2], [0.1, 0.4]])
γ, τ0 = 0.6, 0.8


def block(weigh):
    @tp.block
    def attention(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, W: tp.Matrix):
        c = tp.constant(BIAS, axes=("token", "key"))
        Y = tp.avg((Q @ x) * (K @ x).rename(token="key")) / τ0 + c / tp.sqrt(tp.n)
        v = W @ x
        return np.sqrt(1 - γ**2) * x + γ * (v + weigh(Y, v.rename(token="key")))

    return attention


SPELLINGS = {
    "on the weight": lambda Y, v: tp.sum((tp.abs(Y) ** 1.5 / tp.n**0.25).named("A") * v, over="key"),
    "on the weight, inline": lambda Y, v: tp.sum(tp.abs(Y) ** 1.5 / tp.n**0.25 * v, over="key"),
    "on the value": lambda Y, v: tp.sum(tp.abs(Y) ** 1.5 * (v / tp.n**0.25), over="key"),
    "in halves": lambda Y, v: tp.sum(tp.abs(Y) ** 0.75 / tp.n**0.25 * v * tp.abs(Y) ** 0.75, over="key"),
}


def mean(α, ν):
    """E |S + c|^(3/2), S ~ N(0, V_αα V_νν/τ0²)."""
    σ, c = np.sqrt(V[α, α] * V[ν, ν]) / τ0, BIAS[α, ν]

    def inside(s):
        return abs(s + c) ** 1.5 * np.exp(-(s**2) / (2 * σ**2)) / (σ * np.sqrt(2 * np.pi))

    return quad(inside, -12 * σ, 12 * σ, points=[-c])[0]


def wanted():
    own = np.array([[mean(α, ν) for ν in range(2)] for α in range(2)]) @ V
    return γ**2 * (own + own.T)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_power_of_n_belongs_to_the_function_of_scalars(spelling):
    value, error = tp.derive(block(SPELLINGS[spelling]), tp.Proportional()).drift_estimate_at(V)
    assert (np.abs(value - wanted()) < 4 * error).all() and (error < 1e-3).all()


def test_one_layer_of_networks():
    """n γ² (E A V + V E Aᵀ + E A V Aᵀ) with the A of networks, extrapolated in 1/n; without the biases it is less."""
    L, found = np.linalg.cholesky(V), []
    for n, draws in ((25, 40_000), (100, 10_000)):
        q, k = (L @ np.random.default_rng(seed).standard_normal((draws, 2, n)) for seed in (n, n + 1))
        A = np.abs(q @ k.swapaxes(1, 2) / n / τ0 + BIAS / np.sqrt(n)) ** 1.5 / n**0.25
        moved = n * γ**2 * (A @ V + V @ A.swapaxes(1, 2))
        found.append((moved.mean(axis=0), moved.std(axis=0) / np.sqrt(draws)))
    (few, e), (many, E) = found
    limit, error = (4 * many - few) / 3, np.hypot(4 * E, e) / 3
    assert (np.abs(limit - wanted()) < 4.5 * error + 1e-2).all() and error.max() < 0.05


def test_other_powers_of_n_have_another_limit_or_none():
    def other(power):
        weigh = lambda Y, v: tp.sum(tp.abs(Y) ** 1.5 * v, over="key") / tp.n**power  # noqa: E731
        return tp.derive(block(weigh), tp.Proportional())

    np.testing.assert_allclose(other(0.75).drift_at(V), 0, atol=1e-12)
    for power in (0.0, -0.25):
        with pytest.raises(tp.NoLimitError, match=r"adds up to a drift|has no expansion|of order"):
            other(power)
