"""Paths against exact moments and against plain NumPy, their positivity, seeds, stopping, and statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import shaped

import tplimits as tp
from tplimits.regimes.depth.numbers.paths import Paths

PROPORTIONAL = tp.Proportional()
METHODS = ["psd", "euler"]


def correlated(m, rho=0.2):
    return np.full((m, m), rho) + (1 - rho) * np.eye(m)


@tp.block
def linear(x: tp.State["token"], W: tp.Matrix):
    """A product of iid matrices: b = 0, Σ = Σ_lin."""
    return W @ x


@pytest.fixture(scope="module")
def product():
    return tp.derive(linear, PROPORTIONAL)


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, PROPORTIONAL)


@pytest.fixture(scope="module")
def resnet():
    return tp.derive(shaped.relu_resnet, PROPORTIONAL)


def second_moments(V0, T):
    """E[V_00 V_11] and E[V_01²] of dV = Σ_lin^(1/2) dB: x′ = 2y, y′ = x + y."""
    return scipy.linalg.expm(T * np.array([[0.0, 2.0], [1.0, 1.0]])) @ [V0[0, 0] * V0[1, 1], V0[0, 1] ** 2]


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_moments_of_a_product_of_matrices(product, method):
    V0, T = correlated(2), 0.5
    paths = product.simulate(V0, T=T, dt=0.005, paths=40_000, seed=1, method=method)
    mean, error = paths.mean()
    assert (np.abs(mean - V0) < 4 * error).all()
    moments = np.stack([paths.V[:, 0, 0] * paths.V[:, 1, 1], paths.V[:, 0, 1] ** 2], axis=1)
    found, error = paths.mean(moments)
    assert (np.abs(found - second_moments(V0, T)) < 4 * error + 0.01).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_step_error_is_the_error_of_the_step(product, method):
    """With large steps the estimate from half the step agrees with the distance from the exact moment."""
    V0, T = correlated(2), 0.5
    paths = product.simulate(V0, T=T, dt=0.125, paths=60_000, seed=2, method=method, halve=True)
    assert (paths.dt, paths.halved.dt) == (0.125, 0.0625)

    def moment(p):
        return p.V[:, 0, 0] * p.V[:, 1, 1]

    estimated, noise = paths.step_error(moment)
    value, error = paths.mean(moment(paths))
    assert noise < 2 * error  # independent noise would have 2.8
    bias = value - second_moments(V0, T)[0]
    assert abs(estimated - bias) < 4 * math.hypot(noise, error) + 0.35 * abs(bias)


@pytest.mark.parametrize("method", METHODS)
def test_a_pair_of_runs_and_single_ones(attention, method):
    """The finer paths of a pair are those of half the step; the coarser ones follow them, and no single run."""
    given = {"T": 0.2, "paths": 50, "method": method, "γ": 0.4, "τ0": 1}
    pair = attention.simulate(correlated(3), dt=0.02, halve=True, **given)
    fine, coarse = (attention.simulate(correlated(3), dt=dt, **given) for dt in (0.01, 0.02))
    assert (fine.V == pair.halved.V).all() and not (coarse.V == pair.V).any(axis=(1, 2)).any()
    moved = np.abs(pair.V - correlated(3)).mean()
    assert np.abs(pair.V - fine.V).mean() < 0.2 * moved < np.abs(coarse.V - fine.V).mean()


@pytest.mark.long
def test_resnet_against_plain_numpy_with_tiny_steps(resnet):
    """Figure 3's setting: γ² = 1/2, c₋ = −1, ρ₀ = 0.2, T = 1/3, two tokens."""
    γ, T, steps, count = 0.5**0.5, 1 / 3, 1000, 20_000
    rng = np.random.default_rng(5)
    a, b, c = np.ones(count), np.full(count, 0.2), np.ones(count)
    h = T / steps
    for _ in range(steps):
        scale = np.sqrt(a * c)
        ρ = np.clip(b / scale, -1, 1)
        drift = γ**2 / (2 * np.pi) * (np.sqrt(1 - ρ**2) - ρ * np.arccos(ρ)) * scale
        p, q, r = np.sqrt(a), b / np.sqrt(a), np.sqrt(np.maximum(c - b**2 / a, 0))  # L = [[p, 0], [q, r]]
        x, y, z = rng.standard_normal((3, count)) * np.sqrt(h) * γ
        x, z, y = 2 * x, 2 * z, np.sqrt(2) * y  # G + Gᵀ, √(s/2) = γ
        a, b, c = a + p * p * x, b + h * drift + p * (q * x + r * y), c + q * (q * x + r * y) + r * (q * y + r * z)
    wanted = b / np.sqrt(a * c)
    paths = resnet.simulate(correlated(2), T=T, dt=0.005, paths=40_000, seed=3, γ=γ, c_plus=0, c_minus=-1)
    found = paths.correlation(0, 1)
    for power in (1, 2):
        u, v = found**power, wanted**power
        noise = math.sqrt(u.var() / len(u) + v.var() / len(v))
        assert abs(u.mean() - v.mean()) < 4 * noise + 0.001
    low, middle, high = paths.quantile([0.05, 0.5, 0.95], found).value - np.quantile(wanted, [0.05, 0.5, 0.95])
    assert abs(middle) < 0.02 and abs(high) < 0.01 and abs(low) < 0.03


@pytest.mark.long
def test_both_methods_agree_on_attention(attention):
    """Figure 1's setting."""
    given = {"T": 0.75, "dt": 0.005, "paths": 30_000, "γ": 8**-0.5, "τ0": 1}
    psd, euler = (attention.simulate(correlated(4), seed=7, method=m, **given) for m in METHODS)
    for power in (1, 2):
        (u, du), (v, dv) = (p.mean(p.correlation(0, 1) ** power) for p in (psd, euler))
        assert abs(u - v) < 4 * math.hypot(du, dv)


@tp.block
def small_branch(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, g):
    """A branch of size 1/√depth: an ODE."""
    return x + g / tp.sqrt(tp.n) * (W2 @ tp.relu(W1 @ x))


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_without_noise_is_an_ode(method):
    sde = tp.derive(small_branch, PROPORTIONAL)
    paths = sde.simulate(correlated(3), T=0.5, dt=0.001, paths=2, method=method, halve=True, g=1.2)
    solved = scipy.integrate.solve_ivp(
        lambda t, v: sde.drift_at(v.reshape(3, 3), g=1.2).ravel(),
        (0, 0.5),
        correlated(3).ravel(),
        rtol=1e-9,
        atol=1e-12,
    )
    wanted = solved.y[:, -1].reshape(3, 3)
    assert (paths.V[0] == paths.V[1]).all()
    assert np.abs(paths.V[0] - wanted).max() < 1e-3
    # one step of extrapolation removes the error of order dt
    assert np.abs(paths.V[0] - paths.step_error().value - wanted).max() < 2e-6


# -- positivity -----------------------------------------------------------------------------------


def smallest(paths):
    """The least eigenvalue over the trace, at every recorded time of every path."""
    history = paths.history
    return (np.linalg.eigvalsh(history)[..., 0] / np.trace(history, axis1=-2, axis2=-1)).min()


@pytest.mark.long
def test_a_million_positive_steps_of_attention(attention):
    given = {"T": 0.75, "dt": 0.01, "seed": 11, "record": True, "γ": 0.5**0.5, "τ0": 1}
    paths = attention.simulate(correlated(4), paths=13_400, **given)
    assert paths.history.shape == (13_400, 76, 4, 4)
    assert smallest(paths) >= -1e-12
    assert paths.clipped.sum() == 0
    euler = attention.simulate(correlated(4), paths=13_400, method="euler", **given)
    assert euler.clipped.sum() > 0  # what adds leaves the cone


@pytest.mark.long
def test_positive_steps_of_the_transformer_and_of_masks():
    transformer = tp.derive(tp.stack(shaped.shaped_attention, shaped.relu_resnet), PROPORTIONAL)
    masked = tp.derive(shaped.masked_attention(np.tril(np.ones((4, 4)))), PROPORTIONAL)
    given = {"T": 0.75, "paths": 2000, "record": True, "γ": 0.5**0.5, "τ0": 1}
    for sde, more in ((transformer, {"c_plus": 0, "c_minus": -1}), (masked, {})):
        paths = sde.simulate(correlated(4), **given, **more)
        assert smallest(paths) >= -1e-12
        assert paths.clipped.sum() == 0


def test_equal_tokens_stay_equal(attention):
    """A singular V0 is no difficulty."""
    V0 = correlated(3)
    V0 = V0[np.ix_([0, 1, 1], [0, 1, 1])]
    paths = attention.simulate(V0, T=0.3, paths=200, γ=0.5, τ0=1)
    assert np.allclose(paths.correlation(1, 2), 1, rtol=0, atol=1e-12)
    assert paths.clipped.sum() == 0


# -- seeds ----------------------------------------------------------------------------------------


def test_numbers_depend_on_the_seed_alone(attention):
    given = {"T": 0.1, "γ": 0.4, "τ0": 1}
    one = attention.simulate(correlated(3), paths=200, threads=1, **given)
    two = attention.simulate(correlated(3), paths=200, threads=2, **given)
    few = attention.simulate(correlated(3), paths=70, **given)
    other = attention.simulate(correlated(3), paths=200, seed=1, **given)
    assert (one.V == two.V).all() and (one.V[:70] == few.V).all() and (one.V != other.V).all()


def test_a_start_of_each_path(attention):
    V0 = np.stack([correlated(3, rho) for rho in (0.0, 0.5, 0.9)])
    paths = attention.simulate(V0, T=0.1, paths=3, record=True, γ=0.4, τ0=1)
    assert (paths.history[:, 0] == V0).all()
    alone = attention.simulate(V0[0], T=0.1, paths=1, γ=0.4, τ0=1)
    assert (paths.V[0] == alone.V[0]).all()


def test_recorded_times(attention):
    given = {"T": 0.25, "dt": 0.01, "paths": 5, "γ": 0.4, "τ0": 1}
    every = attention.simulate(correlated(2), record=True, **given)
    fifth = attention.simulate(correlated(2), record=5, **given)
    assert np.allclose(every.time, np.arange(26) * 0.01) and np.allclose(fifth.time, np.arange(6) * 0.05)
    assert (every.history[:, ::5] == fifth.history).all() and (every.history[:, -1] == every.V).all()
    assert every.correlation(0, 1, recorded=True).shape == (5, 26)
    assert every.eigenvalues(recorded=True).shape == (5, 26, 2)


def test_steps_are_equal_and_at_most_dt(attention):
    paths = attention.simulate(correlated(2), T=1 / 3, dt=0.01, paths=2, γ=0.4, τ0=1)
    assert paths.dt == pytest.approx(1 / 3 / 34, rel=1e-15)


# -- stopping -------------------------------------------------------------------------------------


def test_paths_stop_when_an_eigenvalue_leaves_an_interval(product):
    given = {"T": 0.3, "dt": 0.01, "paths": 500, "seed": 4}
    free = product.simulate(correlated(3), record=True, **given)
    values = np.linalg.eigvalsh(free.history)
    low, high = 0.1, 4.0
    out = ((values[..., 0] < low) | (values[..., -1] > high)).argmax(axis=1)
    never = ~((values[..., 0] < low) | (values[..., -1] > high)).any(axis=1)
    paths = product.simulate(correlated(3), stop=(low, high), **given)
    assert (paths.stopped == ~never).all() and 0 < never.sum() < 500
    assert np.allclose(paths.stopping_time, np.where(never, np.inf, out * 0.01))
    assert np.array_equal(paths.V, free.history[np.arange(500), np.where(never, -1, out)])
    radius = product.simulate(correlated(3), stop=high, **given)
    assert (radius.stopped == (values[..., -1] > high).any(axis=1)).all()


def test_a_start_outside_is_stopped_at_once(product):
    paths = product.simulate(correlated(2), stop=(0.9, 10.0), paths=3)
    assert (
        paths.stopped.all()
        and (paths.stopping_time == 0).all()
        and np.array_equal(paths.V, np.stack([correlated(2)] * 3))
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stop", [None, 1e300])
def test_explosions_are_stopped_and_counted(attention, method, stop):
    """A cubic drift from large tokens: no path is NaN, whatever the radius."""
    paths = attention.simulate(
        50 * correlated(3, 0.0), T=1, dt=0.01, paths=300, method=method, stop=stop, record=True, γ=0.7, τ0=0.5
    )
    assert 0 < paths.stopped.sum() <= 300
    assert np.isfinite(paths.V).all() and np.isfinite(paths.history).all()
    assert np.isfinite(paths.stopping_time[paths.stopped]).all() and np.isinf(paths.stopping_time[~paths.stopped]).all()


# -- statistics -----------------------------------------------------------------------------------


def test_errors_of_statistics_are_what_they_say(product):
    """Over 60 seeds, the scatter of mean, deviation and median agrees with the errors they state."""
    runs = [product.simulate(correlated(2), T=0.3, dt=0.05, paths=400, seed=s) for s in range(60)]
    for estimate in (
        lambda p, ρ: p.mean(ρ),
        lambda p, ρ: p.std(ρ),
        lambda p, ρ: p.quantile(0.5, ρ),
    ):
        found = np.array([estimate(p, p.correlation(0, 1)) for p in runs])
        ratio = found[:, 0].std(ddof=1) / found[:, 1].mean()
        assert 0.7 < ratio < 1.35


def test_outputs_are_normal_given_the_covariance(product):
    paths = product.simulate(correlated(2), T=0.3, dt=0.05, paths=2000)
    out = paths.output(samples=400)
    assert out.shape == (2000, 2, 400)
    z = (np.einsum("pas,pbs->pab", out, out) / 400 - paths.V)[:, 0, 1]
    deviation = np.sqrt((paths.V[:, 0, 0] * paths.V[:, 1, 1] + paths.V[:, 0, 1] ** 2) / 400)
    assert abs((z / deviation).mean()) < 4 / 2000**0.5 and 0.9 < (z / deviation).std() < 1.1
    assert (paths.output(seed=1) == paths.output(seed=1)).all()


def test_repr_tells_what_was_stopped(product):
    paths = product.simulate(correlated(2), T=0.1, paths=3)
    assert isinstance(paths, Paths)
    assert repr(paths) == "Paths: 3 of 2 × 2 covariances to T = 0.1 in steps of 0.01 (psd); 0 stopped, 0 steps clipped"
    assert math.isnan(product.simulate(np.zeros((2, 2)), T=0.1, paths=1).correlation(0, 1)[0])


@pytest.mark.parametrize("record", [False, True])
def test_pictures(product, record, tmp_path):
    paths = product.simulate(correlated(2), T=0.1, paths=50, record=record)
    figure = paths.plot(0, 1, tmp_path / "paths.png")
    assert len(figure.axes) == 1 + record and (tmp_path / "paths.png").stat().st_size > 1000
