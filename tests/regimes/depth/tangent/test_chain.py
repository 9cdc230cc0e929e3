"""Moments of the chain of V and G of a homogeneous block, by hand from its stochastic differential equation.

With X = V_T/V_t a martingale and ζ² = V_T χ², dG = s (X χ² − G) dτ + √(2s) G dB gives E G = 1, E G² = e^(2sτ);
for features, ζ² = V_T², E Γ = V₀ (e^(2sτ) − e^(−sτ))/3.
"""

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.depth.tangent import chain

S, T, V0, MANY = 0.2, 1.0, 1.7, 40_000


@pytest.fixture(autouse=True)
def known_noise(monkeypatch):
    monkeypatch.setattr(chain, "noise", lambda sde, constants, ratios: S)


def drawn(readout, T=T, dt=0.05, paths=MANY, V0=V0):
    return chain.chain(None, T, V0, readout, dt, paths, 3, None, None)


def near(values, mean):
    """Whether means are those stated, within five of their errors and what steps of 0.05 do."""
    return np.abs(values.mean(axis=0) - mean) < 5 * values.std(axis=0) / np.sqrt(len(values)) + 2e-3 * mean


def test_the_state_is_a_geometric_brownian_motion():
    found = drawn("normal")
    assert found.time.tolist() == pytest.approx(np.linspace(0, T, 21)) and found.V.shape == (MANY, 21)
    assert (found.V[:, 0] == V0).all() and near(found.V[:, 1:], V0).all()
    log = np.log(found.V[:, 1:])
    assert np.abs(log.mean(axis=0) - np.log(V0) + S * found.time[1:]).max() < 0.02
    assert log.var(axis=0) == pytest.approx(2 * S * found.time[1:], rel=0.04)


def test_a_readout_that_is_normal():
    found = drawn("normal")
    left = T - found.time
    assert (found.G[:, -1] == 1).all() and near(found.G, 1).all()
    assert near(found.G[:, ::5] ** 2, np.exp(2 * S * left[::5])).all()
    assert near(found.V[:, 10] * found.G[:, 10], V0)
    pulled = found.G[:, -2] - found.G[:, -2].mean()  # χ² and the noise: s² h² Var χ² X + 2 s h
    assert pulled.var() == pytest.approx(2 * S * 0.05 + 2 * (S * 0.05) ** 2, rel=0.1)


def test_a_readout_that_is_the_state():
    found = drawn("features")
    left = T - found.time
    mean = V0 * (np.exp(2 * S * left) - np.exp(-S * left)) / 3
    assert (found.G[:, -1] == 0).all() and near(found.G[:, :-1], mean[:-1]).all()


def test_steps_fill_the_depth():
    for dt, steps in ((0.3, 4), (0.25, 4), (1.0, 1), (3.0, 1)):
        assert drawn("normal", dt=dt, paths=1).time.tolist() == pytest.approx(np.linspace(0, T, steps + 1))


def test_places_and_what_is_asked():
    found = chain.Chain(
        np.arange(3) / 2, np.exp([[1.0, 2, 5], [2, 1, 7]]), np.exp([[1.0, 1, 2], [3, 2, 2]]), "normal", S
    )
    assert [found.weights(p).tolist() for p in (0, 0.45, 0.8, 1)] == [[2, 5], [3, 3], [7, 9], [7, 9]]
    assert found.correlation(0, 1) == pytest.approx(1) and chain.place_along("0.5") == 0.5
    for place in (-0.1, 1.1, "first", None):
        with pytest.raises(tp.EvaluationError, match="from 0, the first layer"):
            found.weights(place)
    with pytest.raises(tp.EvaluationError, match="give one of the words 'normal', 'features'"):
        drawn("other")
