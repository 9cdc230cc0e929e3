"""Paths from a root of Σ itself."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import shaped

import tplimits as tp
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.numbers import simulation
from tplimits.regimes.depth.numbers.dense import Dense

NUMBERS = {"γ": 0.5, "τ0": 1.0}
V0 = np.full((3, 3), 0.2) + 0.8 * np.eye(3)


@tp.block
def tied(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, *, γ, τ0):
    """Attention whose keys are its values."""
    k = WK @ x
    keys = k.rename(token="key")
    A = tp.softmax(tp.avg((WQ @ x) * keys) / τ0, over="key")
    return tp.sqrt(1 - γ**2) * x + γ * (k + tp.sum(A * keys, over="key") - tp.mean(keys, over="key"))


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, tp.Proportional())


@pytest.fixture(scope="module")
def without_root():
    return tp.derive(tied, tp.Proportional())


def test_why_there_is_no_structured_root(without_root):
    assert without_root.root is None
    reason = "the noise of `WQ`, `WK` is not linear in averages of two products with the state"
    assert without_root.steps[-1].rule == "square root" and reason in without_root.steps[-1].conclusion
    assert f"noise     = no structured root of Σ: {reason}" in repr(without_root)
    for method in ("psd", "euler"):
        with pytest.raises(tp.EvaluationError, match=f"{reason}. method='dense' takes a root of Σ at every step"):
            without_root.simulate(V0, paths=2, method=method, **NUMBERS)


def test_why_a_stack_has_no_structured_root(without_root):
    stacked = tp.derive(tp.stack(tied, shaped.shaped_attention), tp.Proportional())
    assert stacked.root is None and stacked.steps[-1].conclusion == without_root.steps[-1].conclusion


def test_one_step_has_the_drift_and_the_diffusion(without_root):
    """Columns of the map from normals to V′, one normal at a time."""
    h, engine = 1e-4, Dense(without_root.limit, without_root.values(3, NUMBERS))
    still, _ = engine.step(V0[None], h, np.zeros((1, 6)))
    np.testing.assert_allclose(still[0] - V0, h * without_root.drift_at(V0, **NUMBERS), rtol=0, atol=1e-15)
    moved, clipped = engine.step(np.broadcast_to(V0, (6, 3, 3)), h, np.eye(6))
    a, b = np.triu_indices(3)
    J = ((moved - still) / math.sqrt(h))[:, a, b].T
    np.testing.assert_allclose(J @ J.T, without_root.diffusion_at(V0, **NUMBERS), rtol=0, atol=1e-11)
    assert not clipped.any()


@pytest.mark.long
def test_the_same_law_as_with_the_structured_root(attention):
    given = {"T": 0.5, "dt": 0.02, "paths": 3000, **NUMBERS}
    structured, dense = (attention.simulate(V0, method=m, **given) for m in ("euler", "dense"))
    for power in (1, 2):
        (u, du), (v, dv) = (p.mean(p.correlation(0, 1) ** power) for p in (structured, dense))
        assert abs(u - v) < 4 * math.hypot(du, dv)


def test_seeds_records_and_halves(without_root):
    given = {"T": 0.1, "dt": 0.02, "method": "dense", "record": True, **NUMBERS}
    pair = without_root.simulate(V0, paths=6, halve=True, **given)
    fine = without_root.simulate(V0, paths=9, **{**given, "dt": 0.01})
    assert (fine.V[:6] == pair.halved.V).all() and (pair.halved.history == fine.history[:6, ::2]).all()
    assert np.allclose(pair.time, np.arange(6) * 0.02) and (pair.history[:, -1] == pair.V).all()
    assert np.abs(pair.V - pair.halved.V).max() < 0.2 * np.abs(pair.V - V0).max()
    assert pair.method == "dense"


def test_paths_stop(attention):
    started = attention.simulate(V0, paths=3, stop=(0.9, 10.0), method="dense", **NUMBERS)
    assert started.stopped.all() and (started.stopping_time == 0).all() and (started.V == V0).all()
    free = attention.simulate(V0, T=0.2, paths=40, record=True, method="dense", **NUMBERS)
    out = np.linalg.eigvalsh(free.history)[..., -1] > 1.9
    held = attention.simulate(V0, T=0.2, paths=40, stop=1.9, method="dense", **NUMBERS)
    assert (held.stopped == out.any(axis=1)).all() and 0 < held.stopped.sum() < 40
    assert (free.history[np.arange(40), np.where(out.any(axis=1), out.argmax(axis=1), -1)] == held.V).all()
    exploded = attention.simulate(50 * V0, T=1, dt=0.02, paths=20, stop=1e300, method="dense", γ=0.7, τ0=0.5)
    assert exploded.stopped.any() and np.isfinite(exploded.V).all()


def test_a_diffusion_that_is_not_positive(attention):
    negative = Form({f: -c for f, c in attention.diffusion_form.terms.items()})
    wrong = dataclasses.replace(attention, limit=dataclasses.replace(attention.limit, diffusion=negative))
    with pytest.raises(tp.EvaluationError, match="Σ is not positive: it has the eigenvalue -"):
        wrong.simulate(V0, paths=2, method="dense", **NUMBERS)


def test_an_isotropic_part_that_is_not_positive(attention):
    """γ = 1.5 is refused for its √(1 − γ²) before; here the numbers are put in directly: s = γ²(2 − γ²) < 0."""
    values = {s: 1.5 if s.name == "γ" else v for s, v in attention.values(3, NUMBERS).items()}
    for method in ("psd", "euler"):
        made = simulation.simulator(attention.limit, method)
        with pytest.raises(tp.EvaluationError, match=r"Σ is not positive: .* s = .* = -0\.5625; .* with s ≥ 0"):
            simulation.CompiledSDE.at(made, values, 3)
