"""Long runs: interrupted, they go on from their checkpoint with the numbers they would have had, bit for bit."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.numbers import checkpoint

X = np.array([[1.0, 0.3], [-0.2, 0.8], [0.7, -1.1]])
TARGETS = tp.squared_error([0.5, -1.0, np.nan], train=[0, 1])


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Scalar = 1):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.tanh(W @ x)) + 0.5 * b


RUNS = {
    "μ Adam": (tp.MaximalUpdate(tp.Adam(eps=0.1), weight_decay=0.1), {}),
    "μ SGD": (tp.MaximalUpdate(tp.SGD(momentum=0.5)), {"record": ("x",)}),
    "operator Adam": (tp.NeuralTangent(tp.Adam(eps=0.1)), {"f0": np.zeros(3)}),
    "operator decay": (tp.NeuralTangent(tp.Adagrad(eps=0.1), weight_decay=0.1), {}),
}
LIMITS = {name: (tp.derive(mlp, regime), more) for name, (regime, more) in RUNS.items()}
SMALL = {"lr": 0.1, "steps": 4, "particles": 128, "block": 32, "replicates": 2}


def evaluated(name, **changed):
    limit, more = LIMITS[name]
    return limit.evaluate(X, **{**SMALL, "error": TARGETS, **more, **changed})


#: how often a function of the user's is called before training, so that the file knows it again
PROBES = 6


def interrupting(at):
    """The error signal, interrupted in its call number `at` of training, and these calls."""
    before, calls = [], []

    def error(f):
        if len(before) < PROBES:
            before.append(1)
            return TARGETS(f)
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return TARGETS(f)

    return error, calls


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("at", [1, 2, 4, 5, 8])
def test_a_run_interrupted_in_a_step_goes_on_with_that_step(name, at, tmp_path):
    whole = evaluated(name)
    file = tmp_path / "run.npz"
    error, _ = interrupting(at)
    with pytest.raises(KeyboardInterrupt):
        evaluated(name, error=error, checkpoint=file)
    again, calls = interrupting(0)
    resumed = evaluated(name, error=again, checkpoint=file)
    assert (resumed.replicates == whole.replicates).all() and (resumed.stderr == whole.stderr).all()
    assert len(calls) == 2 * 4 - (at - 1)  # no step is made twice
    assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.parametrize("name", LIMITS)
def test_a_run_interrupted_again_and_again_between_steps(name, tmp_path):
    """Interrupted by its progress, at every time it is told of, it ends with the same numbers."""
    whole = evaluated(name)
    file, stop, seen = tmp_path / "run.npz", 1, []

    def interrupt(done, total, text):
        seen.append((done, total))
        if done >= stop:
            raise KeyboardInterrupt

    while True:
        try:
            resumed = evaluated(name, checkpoint=file, progress=interrupt)
            break
        except KeyboardInterrupt:
            stop += 1
    assert (resumed.replicates == whole.replicates).all()
    assert seen[-1][0] == seen[-1][1] == stop - 1
    seen.clear()
    assert (evaluated(name, checkpoint=file, progress=lambda *told: seen.append(told)).f == whole.f).all()
    assert len(seen) == 1 + 2  # the plan, and each replicate at once


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("at", [2, 4])
def test_a_large_state_goes_back_to_the_last_file(name, at, tmp_path, monkeypatch):
    whole = evaluated(name)
    monkeypatch.setattr(checkpoint, "_COPIED", 0)
    monkeypatch.setattr(checkpoint, "_SHARE", 1e9)  # the file is written after the first step and no more
    file = tmp_path / "run.npz"
    error, _ = interrupting(at)
    with pytest.raises(KeyboardInterrupt):
        evaluated(name, error=error, checkpoint=file)
    again, calls = interrupting(0)
    resumed = evaluated(name, error=again, checkpoint=file)
    assert (resumed.replicates == whole.replicates).all()
    assert len(calls) == 2 * 4 - 1


@pytest.mark.parametrize("name", LIMITS)
def test_more_replicates_go_on_from_fewer(name, tmp_path):
    file = tmp_path / "run.npz"
    evaluated(name, checkpoint=file)
    more = evaluated(name, checkpoint=file, replicates=3)
    assert (more.replicates == evaluated(name, replicates=3).replicates).all()
    assert (evaluated(name, checkpoint=file).replicates == more.replicates[:2]).all()


@pytest.mark.parametrize("name", LIMITS)
def test_an_interruption_while_the_file_is_written_leaves_the_old_one_whole(name, tmp_path, monkeypatch):
    whole = evaluated(name)
    file = tmp_path / "run.npz"
    error, _ = interrupting(3)
    with pytest.raises(KeyboardInterrupt):
        evaluated(name, error=error, checkpoint=file)
    before = file.read_bytes()

    def torn(stream, **arrays):
        stream.write(b"PK\x03\x04 half of a file")
        raise KeyboardInterrupt

    again, _ = interrupting(0)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(np, "savez", torn)
        evaluated(name, error=again, checkpoint=file)
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["run.npz"]
    assert (evaluated(name, error=again, checkpoint=file).replicates == whole.replicates).all()


@pytest.mark.parametrize("name", LIMITS)
def test_files_of_other_runs_and_damaged_ones_are_refused(name, tmp_path):
    file = tmp_path / "run.npz"
    evaluated(name, checkpoint=file)
    good = file.read_bytes()
    for changed in (
        {"seed": 1},
        {"lr": 0.2},
        {"lr": lambda t: 0.1 + 0.1 * (t == 3)},
        {"steps": 5},
        {"block": 64},
        {"b": 2.0},
        {"error": tp.squared_error([0.6, -1.0, np.nan], train=[0, 1])},
    ):
        with pytest.raises(tp.EvaluationError, match="the file belongs to another run"):
            evaluated(name, checkpoint=file, **changed)
    assert file.read_bytes() == good
    middle = len(good) // 2
    for damaged in (
        b"",
        b"nothing of the kind",
        good[:middle],
        good[:100] + bytes([good[100] ^ 255]) + good[101:],
        good[:middle] + bytes(20) + good[middle + 20 :],
    ):
        file.write_bytes(damaged)
        with pytest.raises(tp.EvaluationError, match="no checkpoint of tplimits, or damaged"):
            evaluated(name, checkpoint=file)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    np.save(tmp_path / "one.npy", np.ones(3))
    for other in ("other.npz", "one.npy"):
        with pytest.raises(tp.EvaluationError, match="no checkpoint of tplimits, or damaged"):
            evaluated(name, checkpoint=tmp_path / other)
    for nowhere in (tmp_path / "none" / "run.npz", tmp_path):
        with pytest.raises(tp.EvaluationError, match="checkpoint="):
            evaluated(name, checkpoint=nowhere)


class Shifted:
    def __init__(self, y):
        self.y = y

    def __call__(self, f):
        return f - self.y


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize(
    "made",
    [
        Shifted,
        lambda y: lambda f: f - y,
        lambda y: lambda f: Shifted([y])(f),
        lambda y: lambda f, t: f - y * (t == 3),
        lambda y: lambda f: np.where(np.abs(f) > 5, y, 1.0) * f,
    ],
    ids=["object", "closure", "inside", "at the last step", "large outputs"],
)
def test_files_know_what_error_functions_do(name, made, tmp_path):
    """By values, so that the same function from another process, with other names and addresses, goes on."""
    file = tmp_path / "run.npz"
    f = evaluated(name, error=made(1.0), checkpoint=file).f
    assert (evaluated(name, error=made(1.0), checkpoint=file).f == f).all()
    assert (evaluated(name, error=made(1.0)).f == f).all()
    with pytest.raises(tp.EvaluationError, match="data, error function, optimizer"):
        evaluated(name, error=made(1.1), checkpoint=file)


@pytest.mark.parametrize("name", LIMITS)
def test_functions_that_fail_at_outputs_training_never_has(name, tmp_path):
    def error(f):
        if (np.abs(f) > 5).any():
            raise ValueError("far away")
        return TARGETS(f)

    file, whole = tmp_path / "run.npz", evaluated(name)
    assert (evaluated(name, error=error, checkpoint=file).f == whole.f).all()
    assert (evaluated(name, error=error, checkpoint=file).f == whole.f).all()

    def interrupted(f):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluated(name, error=interrupted, checkpoint=file)
    assert (evaluated(name, error=error, checkpoint=file).f == whole.f).all()


@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_files_know_where_states_start(regime, tmp_path):
    def run(start):
        root = tp.Entrywise(lambda g, v: g / tp.sqrt(v + 1), states={"v": lambda g, v: v + g**2}, initial={"v": start})
        limit = tp.derive(mlp, regime(root))
        return limit.evaluate(X, **SMALL, error=TARGETS, checkpoint=tmp_path / "run.npz").f

    assert (run(1) == run(1)).all()
    with pytest.raises(tp.EvaluationError, match="another run"):
        run(100)


@pytest.mark.parametrize("name", LIMITS)
def test_functions_that_cannot_be_sent_to_processes_are_named(name):
    with ProcessPoolExecutor(1) as executor:
        for changed in ({"error": lambda f: f}, {"lr": lambda t: 0.1}):
            with pytest.raises(tp.EvaluationError, match=f"{next(iter(changed))}= cannot be sent to the processes"):
                evaluated(name, executor=executor, **changed)


def test_writing_takes_a_small_part_of_a_run(tmp_path, monkeypatch):
    """Many steps, few files: the clock says when."""
    now, written = [0.0], []
    save = checkpoint.save

    def slow(path, state):
        now[0] += 1.0
        written.append(now[0])
        save(path, state)

    def error(f):
        now[0] += 2.0
        return TARGETS(f)

    monkeypatch.setattr(checkpoint, "save", slow)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    evaluated("operator Adam", steps=60, error=error, checkpoint=tmp_path / "run.npz")
    assert len(written) / now[0] < 0.06
    assert len(written) >= 2 * 5
