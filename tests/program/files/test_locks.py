"""One run at a file: others are refused while it lasts, and nothing is left of the lock."""

import os
import subprocess
import sys

import pytest

import tplimits as tp
from tplimits.pages.files import write_by
from tplimits.program.files import locks
from tplimits.program.files.locks import alone

HOLDING = (
    "import sys, pathlib\nfrom tplimits.program.files.locks import alone\n"
    "with alone('checkpoint', pathlib.Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
)


def refused(what, file, words):
    with pytest.raises(tp.EvaluationError, match=words), alone(what, file):
        pass


def test_a_second_run_is_refused_until_the_first_ends(tmp_path):
    file = tmp_path / "run.npz"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        refused("checkpoint", file, f"checkpoint=.*process {first.pid} on .* is at work")
        first.kill()
    with alone("checkpoint", file):
        assert os.listdir(tmp_path) == [".run.npz.lock"]
    assert os.listdir(tmp_path) == []


def test_threads_are_told_apart(tmp_path):
    with alone("path", tmp_path / "a"), alone("path", tmp_path / "b"):
        refused("path", tmp_path / "a", "path=.*another thread of this process")


def test_what_killed_runs_left_is_removed_and_nothing_else(tmp_path):
    for name in ("run.npz.77-1.part", "run.npz", "other.npz.77-1.part"):
        (tmp_path / name).write_text("x")
    with alone("path", tmp_path / "run.npz"):
        write_by(tmp_path / "run.npz", lambda file: file.write(b"y"))
    assert sorted(os.listdir(tmp_path)) == ["other.npz.77-1.part", "run.npz"]


def test_a_system_without_record_locks_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    with pytest.raises(OSError, match="this system has no record locks"), locks.FileLock(tmp_path / "x"):
        pass
