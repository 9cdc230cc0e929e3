"""Recordings that are interrupted go on from their file, bit for bit as if they had not been."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from watched import HOW, X, deep, inputs, same, shallow, watched

import tplimits as tp
from tplimits.watch import watching

SUPPORT = Path(__file__).parents[1] / "support"
ROOT = SUPPORT.parents[1]
#: recordings of every kind of run that can be left in its middle, written at every frame: once as a whole, then in
#: processes that are killed at a random moment after a frame; one line is printed for each: frames in its files
PROGRAM = """
import os, pathlib, random, signal, sys, threading, time
sys.path.insert(0, sys.argv[2])
import tplimits as tp
from tplimits.watch import watching
from watched import X, deep, inputs, watched
watching._SHARE = 0
HOW = {"error": tp.squared_error(inputs(4, 3, seed=1)), "optimizer": tp.Adam(eps=0.01), "lr": 0.02, "steps": 3}
moments = random.Random(0)

def killed(frame):
    delay = moments.uniform(0, 0.02)
    def shot():
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda done, total, text: done == frame and threading.Thread(target=shot).start()

def made(folder=None, one=None, other=None):
    paths = [folder and folder / name for name in ("shallow.npz", "deep.npz")]
    watched(paths[0], steps=20, progress=killed(one))
    how = {**HOW, "particles": 256, "replicates": 2, "progress": killed(other)}
    tp.watch(deep, X[:4], path=paths[1], widths=(6, tp.inf), **how)

def child(folder, one=None, other=None):
    process = os.fork()
    if not process:
        made(folder, one, other)
        if one or other:
            time.sleep(60)  # the shot is on its way
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

made()  # compiles once for all processes
whole, cut = (pathlib.Path(sys.argv[1]) / name for name in ("whole", "cut"))
assert child(whole) == 0
for one, other in ((1, None), (17, None), (23, None), (19, None), (None, 1), (None, 4)):
    assert child(cut, one, other) == -signal.SIGKILL
    print(sum(r.frames for path in cut.glob("*.npz") for r in tp.load_recording(path).runs))
assert child(cut) == 0
print(sum(r.frames for path in cut.glob("*.npz") for r in tp.load_recording(path).runs))
"""


@pytest.mark.long
def test_killed_at_any_moment_it_goes_on_bit_for_bit(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(SUPPORT)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    frames = [int(line) for line in done.stdout.split()]
    # the file that is written at a frame may be that of the frame before
    assert frames == sorted(frames) and frames[-1] == 4 * 21 + 2 * 4
    for name in ("deep.npz", "shallow.npz"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    assert sorted(os.listdir(cut)) == ["deep.npz", "shallow.npz"]


class _Stop(Exception):
    pass


@pytest.mark.parametrize("frames", [1, 3, 9, 20])
def test_interrupted_here_it_goes_on(tmp_path, frames):
    seen = []

    def stop(done, total, text):
        seen.append(done)
        if done >= frames:
            raise _Stop

    with pytest.raises(_Stop):
        watched(tmp_path / "run.npz", progress=stop)
    assert sum(r.frames for r in tp.load_recording(tmp_path / "run.npz").runs) == frames
    assert same(watched(tmp_path / "run.npz"), watched())
    assert seen[0] == 0


@pytest.mark.long
def test_limits_between_frames_go_on_bit_for_bit(tmp_path):
    how = {"error": tp.squared_error(inputs(8, 3, seed=1)), "optimizer": tp.Adam(eps=0.01), "lr": 0.02, "steps": 6}
    how |= {"batches": tp.batches(3), "every": 3, "widths": tp.inf, "particles": 512, "replicates": 2, "probes": X[:2]}

    def stop(done, total, text):
        if done == 2:
            raise _Stop

    with pytest.raises(_Stop):
        tp.watch(deep, X, **how, path=tmp_path / "run.npz", progress=stop)
    assert tp.load_recording(tmp_path / "run.npz").run().frames == 2
    assert same(tp.watch(deep, X, **how, path=tmp_path / "run.npz"), tp.watch(deep, X, **how))


def test_unfinished_recordings_can_be_looked_at(tmp_path):
    def stop(done, total, text):
        if done >= 3:
            raise _Stop

    with pytest.raises(_Stop):
        watched(tmp_path / "run.npz", progress=stop)
    found = tp.load_recording(tmp_path / "run.npz")
    assert found.run(8, 0).frames == 3 and len(found.steps) == 7
    assert found.value("h", -1, 8, 0).shape == (8, 8)
    with pytest.raises(tp.EvaluationError, match=r"frame=-1: width 8, seed 1 has no frame yet"):
        found.value("h", -1, 8, 1)
    assert "width 8: 2 seeds, so far 0 of 7 frames" in repr(found)


def test_a_run_that_diverges_leaves_the_others(tmp_path):
    def lr(t):
        return 1e300 if t == 3 else 0.01

    with pytest.raises(tp.EvaluationError, match=r"width 8, seed 0: .*step 4"):
        watched(tmp_path / "run.npz", lr=lr, optimizer=tp.SGD())
    assert [r.frames for r in tp.load_recording(tmp_path / "run.npz").runs] == [4, 0, 0, 0]


def test_a_call_that_is_put_right_finds_no_file_in_its_way(tmp_path):
    path = tmp_path / "run.npz"
    with pytest.raises(tp.EvaluationError, match="targets have shape"):
        watched(path, error=tp.squared_error(np.ones(5)))
    assert not path.exists()
    assert same(watched(path), watched())


def test_more_widths_and_seeds_are_added_to_a_file(tmp_path):
    path = tmp_path / "run.npz"
    watched(path, widths=8, seeds=1)
    both = watched(path, widths=(8, tp.inf), seeds=2)
    assert same(both, watched())
    again = watched(path, widths=4, seeds=1)  # what is there stays
    assert [r.width for r in again.runs] == [4, 8, 8, tp.inf, tp.inf]


def test_a_finished_recording_is_read_and_not_made(tmp_path):
    path = tmp_path / "run.npz"
    first = watched(path)
    written = path.stat().st_mtime_ns
    assert same(watched(path), first) and path.stat().st_mtime_ns == written


@pytest.mark.parametrize("batches", [None, tp.batches(3)])
def test_more_steps_go_on_from_the_end_as_if_all_had_been_asked_for(tmp_path, batches):
    """Optimizers, rates and batches as they were there: the bits of one call, of networks and of the limit."""
    parts, whole = tmp_path / "parts.npz", tmp_path / "whole.npz"
    how = {"lr": lambda t: 0.05 / (1 + t), "batches": batches}
    for steps in (4, 4, 7):
        watched(parts, steps=steps, **how)
    assert same(watched(parts, steps=9, **how), watched(whole, steps=9, **how))
    assert parts.read_bytes() == whole.read_bytes()
    fresh = tp.watch(shallow, X, start=watched(steps=4, **how), widths=8, **{**HOW, **how, "steps": 5})
    assert not np.allclose(fresh.loss[8][0, -1], tp.load_recording(whole).loss[8][0, -1], rtol=1e-3)


def test_limits_with_matrices_go_on_with_as_many_samples_as_were_kept(tmp_path):
    path = tmp_path / "deep.npz"
    how = {"error": tp.squared_error(inputs(4, 3, seed=1)), "optimizer": tp.SGD(), "lr": 0.1, "particles": 256}
    how |= {"widths": (6, tp.inf), "replicates": 2, "samples": 20, "path": path}
    short = tp.watch(deep, X[:4], steps=1, **how)
    long = tp.watch(deep, X[:4], steps=2, **how)
    assert long.run(tp.inf).values["g"].shape[-1] == 20
    np.testing.assert_array_equal(long.loss[tp.inf][:, :2], short.loss[tp.inf])


@pytest.mark.parametrize(
    "other",
    [
        {"lr": 0.04},
        {"lr": lambda t: 0.05 if t < 5 else 0.04},
        {"steps": 5},
        {"steps": 7, "every": 7},
        {"every": 2},
        {"optimizer": tp.Adam(β1=0.5)},
        {"parametrization": tp.NTP},
        {"error": tp.squared_error(np.sin(X[:, 0]), train=range(5))},
        {"error": tp.cross_entropy(np.zeros(8))},
        {"batches": tp.batches(3)},
        {"weight_decay": 0.1},
        {"particles": 128},
        {"probes": X[:2]},
        {"b": 1.0},
        {"sharpness": True},
    ],
)
def test_files_of_other_recordings_are_refused_and_stay(tmp_path, other):
    path = tmp_path / "run.npz"
    watched(path, widths=4, seeds=1)
    before = path.read_bytes()
    with pytest.raises(tp.EvaluationError, match=r"the file holds another recording|outputs"):
        watched(path, **{"widths": 4, "seeds": 1, **other})
    assert path.read_bytes() == before


def test_other_files_are_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a recording")
    with pytest.raises(tp.EvaluationError, match=r"notes\.txt: it is damaged or no file of arrays"):
        watched(path)
    assert path.read_text() == "not a recording"


def test_executors_take_the_same_frames(tmp_path):
    here = watched()
    with ThreadPoolExecutor(2) as executor:
        assert same(watched(executor=executor), here)
    with ProcessPoolExecutor(2) as executor:
        assert same(watched(tmp_path / "run.npz", executor=executor), here)
        assert same(tp.load_recording(tmp_path / "run.npz"), here)
        with pytest.raises(tp.EvaluationError, match="error= cannot be sent to the processes"):
            watched(error=lambda f: f, executor=executor)


def test_runs_in_other_processes_hand_over_what_they_have(tmp_path, monkeypatch):
    from tplimits.watch.making import recorder

    monkeypatch.setattr(recorder, "_HANDED_OVER", 0.0)
    told = []
    with ThreadPoolExecutor(2) as executor:
        assert same(watched(executor=executor, progress=lambda done, total, text: told.append(done)), watched())
    assert told[0] == 0 and told[-1] == 28 and len(told) == 29


def test_writing_takes_a_small_part_of_the_time(tmp_path, monkeypatch):
    writes = []

    def slow(contents, path):
        writes.append(sum(r.frames for r in contents.runs))
        time.sleep(0.02)

    monkeypatch.setattr(watching.file, "save", slow)
    began = time.monotonic()
    watched(tmp_path / "run.npz", steps=40, widths=4, seeds=1)
    assert writes[-1] == 41 and len(writes) <= 3 + (time.monotonic() - began) / 0.4


def test_files_are_written_soon_and_then_for_a_tenth_of_the_time():
    """Writes of half a second: a run that is killed every four seconds gets on by more than a frame."""
    pace = watching._Pace()
    assert [pace.after(0.5) for _ in range(8)] == [1.0] * 4 + [5.0] * 4
    assert [watching._Pace().after(took) for took in (0.01, 0.06, 0.5, 30.0)] == [0.2, 1.0, 1.0, 300.0]
    assert [pace.after(took) for took in (0.01, 0.15, 1.0)] == [0.2, 2.0, 10.0]


def test_places_where_no_file_can_be_are_told_before_work(tmp_path):
    told = []
    for path, said in ((tmp_path, "it is a folder"), (tmp_path / "none" / "run.npz", "its folder is missing")):
        with pytest.raises(tp.EvaluationError, match=f"path=.*: {said}. Give the name of a file"):
            watched(path, progress=lambda done, total, text: told.append(done))
    assert not told and not list(tmp_path.iterdir())


def test_seeds_and_widths_do_not_disturb_one_another():
    alone = tp.watch(shallow, X, **HOW, widths=8, seeds=(1,))
    assert same(alone, tp.watch(shallow, X, **HOW, widths=8, seeds=(1,)))
    both = watched().run(8, 1)
    assert all(np.array_equal(both.parameters[n], a) for n, a in alone.run().parameters.items())
    assert deep is not shallow and inputs(1, 1).shape == (1, 1)
