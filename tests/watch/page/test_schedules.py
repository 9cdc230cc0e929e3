"""Recordings of networks with a constant that moves with the step: every frame is one at its own step."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tplimits as tp
from tplimits.watch import watching

X = np.array([[1.0, 0.5], [-0.3, 1.0], [0.2, -0.7]])
Y = np.array([1.0, -1.0, 0.5])
HOW = {"error": tp.squared_error(Y), "lr": 0.5, "steps": 4}


def cooling(t):
    """A temperature that falls, asked for steps up to the last alone."""
    assert 0 <= t <= 4
    return 2 - 0.4 * t


@tp.network
def warm(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, c, gain=1.0):
    h = tp.tanh(c * tp.sum(U * ξ, over="d"))
    return gain * v * h


@tp.network
def deep(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    return v * tp.tanh(c * h)


def outputs_at(parameters, c):
    """f of `warm` by hand."""
    return np.tanh(c * X @ parameters["U"]) @ parameters["v"] / parameters["v"].size


@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Normalized(tp.SGD())], ids=["SGD", "normalized"])
def test_every_frame_is_one_at_its_own_step(optimizer):
    rec = tp.watch(warm, X, optimizer=optimizer, widths=(8, tp.inf), particles=256, samples=256, c=cooling, **HOW)
    for frame, t in enumerate(rec.steps):
        for width in (8, tp.inf):
            parameters = rec.parameters(frame, width)
            assert set(parameters) == {"U", "v"}
            np.testing.assert_allclose(rec.outputs(frame, width), outputs_at(parameters, cooling(t)), atol=1e-6)
            loss = tp.squared_error(Y).loss(outputs_at(parameters, cooling(t)))
            assert rec.curves("loss")[width][0, frame] == pytest.approx(loss, abs=1e-6)
            assert rec.value("c", frame, width) == pytest.approx(cooling(t))
    # the frame before, looked at one step too late
    assert abs(outputs_at(rec.parameters(0, 8), cooling(1)) - rec.outputs(0, 8)).max() > 1e-3


@pytest.mark.parametrize("table", [tp.MUP, tp.NTP], ids=["μP", "NTP"])
def test_limits_with_matrices_stand_beside(table):
    how = {"optimizer": tp.SGD(), "widths": (256, tp.inf), "parametrization": table, "particles": 1024, "seeds": 3}
    rec = tp.watch(deep, X, c=cooling, **HOW, **how)
    limit = tp.derive(deep, (tp.MaximalUpdate if table is tp.MUP else tp.NeuralTangent)(tp.SGD()))
    for seed in range(3):
        alone = limit.evaluate(X, c=cooling, particles=1024, replicates=4, seed=seed, **HOW)
        np.testing.assert_allclose(rec.outputs(-1, tp.inf, seed), alone.f[-1], atol=1e-6)


def test_a_recording_goes_on_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_SHARE", 0)
    whole, cut = tmp_path / "whole.npz", tmp_path / "cut.npz"
    how = {"optimizer": tp.Adam(eps=0.1), "widths": (8, tp.inf), "particles": 64, **HOW}

    def stop(done, total, text):
        if done == 3:
            raise KeyboardInterrupt

    tp.watch(warm, X, c=cooling, path=whole, **how)
    with pytest.raises(KeyboardInterrupt):
        tp.watch(warm, X, c=cooling, path=cut, progress=stop, **how)
    with pytest.raises(tp.EvaluationError, match="another recording"):
        tp.watch(warm, X, c=lambda t: cooling(t) + 0.01, path=cut, **how)
    tp.watch(warm, X, c=cooling, path=cut, **how)
    assert cut.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    "schedules", [None, {}, {"c": 1.0}, {"c": [1.0]}, {"c": [1.0] * 4 + ["x"]}, {"c": [1.0] * 5, "d": [1.0] * 5}]
)
def test_files_with_other_schedules_are_refused(tmp_path, schedules):
    path = tmp_path / "run.npz"
    rec = tp.watch(warm, X, optimizer=tp.SGD(), widths=4, c=cooling, path=path, **HOW)
    rec.settings["schedules"] = schedules
    rec.save(path)
    with pytest.raises(tp.EvaluationError, match="schedules"):
        tp.load_recording(path)


def test_the_page_moves_them(browser, tmp_path):
    rec = tp.watch(warm, X, optimizer=tp.SGD(), widths=(8, tp.inf), particles=64, samples=64, c=cooling, **HOW)
    path = tmp_path / "page.html"
    rec.page(path)
    for frame in (0, 3):
        browser.open(path, f"#frame={frame}")
        found = json.loads(
            browser.run(
                """page.then((app) => { app.draw(); const m = app.sides[0].machine;
                return JSON.stringify(Object.fromEntries(Object.entries(app.data.values)
                  .map(([name, { id }]) => [name, Array.from(m.get(id))]))) })"""
            )
        )
        assert found["c"] == pytest.approx([cooling(frame)])
        np.testing.assert_allclose(found["output"], rec.outputs(frame, 8), atol=1e-5)
