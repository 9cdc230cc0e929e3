"""Rates of parameters: Θ = Σ r_p Θ_p, and with them the standard parametrization at a base width."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

#: deviations of weights and biases, and the base width, of the standard parametrization
SW, SB, BASE = 1.5, 0.5, 16
X = np.random.default_rng(0).standard_normal((3, 4))


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, W: tp.Matrix, b: tp.Vector, v: tp.Vector, c: tp.Scalar):
    x = tp.relu(SW * tp.layers.linear(ξ, U) / tp.sqrt(tp.size("d")) + SB * a)
    x = tp.relu(SW * tp.layers.linear(x, W) + SB * b)
    return tp.readout(SW * v * x) + SB * c


RATES = {"U": 4 / SW**2, "a": 1 / SB**2, "W": BASE / SW**2, "b": 1 / SB**2, "v": BASE / SW**2, "c": 1 / SB**2}


def standard(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights N(0, σ²/fan-in) trained themselves: a dense layer adds fan-in · K of what it reads, 1 for its bias."""
    K, T, fan = X @ X.T / X.shape[1], np.zeros((len(X), len(X))), X.shape[1]
    for layer in range(3):
        T = SW**2 * T + fan * K + 1
        K, fan = SW**2 * K + SB**2, BASE
        if layer < 2:
            s = np.sqrt(np.diag(K))
            ρ = np.clip(K / np.outer(s, s), -1, 1)
            θ = np.arccos(ρ)
            T = T * (np.pi - θ) / (2 * np.pi)
            K = np.outer(s, s) * (np.sin(θ) + (np.pi - θ) * ρ) / (2 * np.pi)
    return K, T


def test_standard_parametrization():
    found, (nngp, ntk) = tp.derive(mlp, tp.Kernels(train=RATES)).evaluate(X), standard(X)
    np.testing.assert_allclose(found.nngp, nngp, rtol=1e-7)
    np.testing.assert_allclose(found.ntk, ntk, rtol=1e-7)  # arccos loses half the digits on the diagonal
    np.testing.assert_allclose(found.ntk[0, 1], ntk[0, 1], rtol=1e-13)


def test_rates_are_factors_of_contributions():
    limit = tp.derive(mlp, tp.Kernels(train=RATES))
    plain = tp.derive(mlp, tp.Kernels())
    total = sum(r * plain.contribution(name).evaluate(X).ntk for name, r in RATES.items())
    np.testing.assert_allclose(limit.evaluate(X).ntk, total, rtol=1e-13)
    parts = sum(limit.contribution(name).evaluate(X).ntk for name in RATES)
    np.testing.assert_allclose(parts, total, rtol=1e-13)
    with pytest.raises(tp.ProgramError, match="not trained"):
        tp.derive(mlp, tp.Kernels(train={"U": 2})).contribution("v")


@tp.network
def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, c: tp.Scalar):
    return tp.readout(v * tp.relu(W @ (tp.layers.linear(ξ, U)))) + c


@pytest.mark.long
@pytest.mark.sampling
def test_networks_of_finite_width_have_these_kernels():
    rates = {"U": 3, "W": 0.5, "v": 4, "c": 2}
    one = np.array([[1.0, 0.5]])
    limit = tp.derive(shallow, tp.Kernels(train=rates))
    assert tp.check(limit, X1=one, level=0.01, seed=1).accepted
    wrong = {"ntk": tp.derive(shallow, tp.Kernels(train={**rates, "v": 3, "W": 3})).evaluate(one).ntk}
    assert not tp.check(limit, X1=one, claims=wrong, level=0.01, seed=1).accepted


@pytest.mark.parametrize("kinked", [False, True])
def test_rates_reach_families_and_data(kinked):
    """Members of a family share their rate; first layers, whose weights are vectors or matrices of taps."""

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
        over, taps = {"at": 4}, {"tap": 3}
        x = tp.layers.conv1d(ξ, U, over=over, taps=taps)
        x = tp.layers.conv1d(tp.relu(x) if kinked else x, W, over=over, taps=taps)
        return tp.sum(v * tp.relu(x), over="at")

    images = np.random.default_rng(1).standard_normal((2, 2, 4))
    rates = {"U": 3, "W": 5, "v": 7}
    plain = tp.derive(net, tp.Kernels())
    total = sum(r * plain.contribution(name).evaluate(images).ntk for name, r in rates.items())
    np.testing.assert_allclose(tp.derive(net, tp.Kernels(train=rates)).evaluate(images).ntk, total, rtol=1e-13)


def test_reports_tell_rates():
    limit = tp.derive(mlp, tp.Kernels(train={"U": 2, "W": 1}))
    assert "tangent kernel Θ of 2·U, W" in repr(limit)
    assert any("at the rates 2, 1; a, b, v, c stay as drawn" in a for a in limit.assumptions)
    assert '"rates"' in limit.document()


@pytest.mark.parametrize("rate", [0, -1, "2", float("nan"), None, tp.n])
def test_rates_that_are_none(rate):
    with pytest.raises(tp.ProgramError):
        tp.derive(mlp, tp.Kernels(train={"W": rate}))
    with pytest.raises(tp.ProgramError, match="no parameter"):
        tp.derive(mlp, tp.Kernels(train={"Q": 1}))
