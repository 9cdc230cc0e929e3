"""tplimits watch and tplimits view."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import tplimits as tp
from tplimits import cli

FILE = """
import tplimits as tp

@tp.network
def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector["label"], *, γ):
    return γ * v * tp.tanh(tp.sum(U * ξ, over="d"))
"""
HOW = tuple(re.split(" ", "--data x.npy --lr 0.5 --steps 4 --widths 8,inf --particles 64 --size label=2 --set γ=1"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a network, inputs, targets and labels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "user.py").write_text(FILE, encoding="utf-8")
    x = np.random.default_rng(0).standard_normal((6, 3))
    np.save("x.npy", x)
    np.save("y.npy", np.stack([np.sin(x[:, 0]), np.cos(x[:, 1])], axis=1))
    np.save("labels.npy", (x[:, 0] > 0).astype(int))
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = cli.main(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_it_is_what_the_function_does(capsys, folder):
    more = re.split(" ", "--labels labels.npy --held-out 2 --optimizer adam:eps=0.01 --batch 2 --every 2 --seeds 2")
    status, out, _ = run(capsys, "watch", "user.py:shallow", *HOW, *more, "--out", "run.npz")
    assert status == 0
    net = tp.load_recording("run.npz").program
    loss = tp.cross_entropy(np.load("labels.npy"), train=range(4))
    how = {"lr": 0.5, "steps": 4, "widths": (8, tp.inf), "particles": 64, "batches": tp.batches(2), "every": 2}
    by_call = tp.watch(net, np.load("x.npy"), error=loss, optimizer=tp.Adam(eps=0.01), seeds=2, path="run.npz", **how)
    assert by_call.run(8, 1).frames == 3  # the same recording: it was read, and not refused
    lines = out.splitlines()
    assert lines[0] == "shallow in training, 4 steps, MUP"
    head = ("width", "seeds", "frames", "loss", "accuracy", "held-out loss", "held-out accuracy")
    assert lines[1].split() == re.split(" ", " ".join(head))
    assert [line.split()[:3] for line in lines[2:]] == [["8", "2", "3"], ["limit", "2", "3"]]
    ends = " → ".join(f"{by_call.loss[8][:, at].mean():.4g}" for at in (0, -1))
    assert ends in lines[2]


def test_targets_are_those_of_the_squared_error(capsys):
    status, out, _ = run(capsys, "watch", "user.py:shallow", *HOW, "--targets", "y.npy", "--sharpness")
    assert status == 0 and "sharpness" in out and "held-out" not in out


def test_recordings_are_viewed(capsys, folder):
    run(capsys, "watch", "user.py:shallow", *HOW, "--targets", "y.npy", "--out", "run.npz", "--html", "first.html")
    status, out, err = run(capsys, "view", "run.npz")
    assert status == 0 and out.splitlines()[0] == "shallow in training, 4 steps, MUP" and "wrote run.html" in err
    assert (folder / "run.html").read_bytes() == (folder / "first.html").read_bytes()
    assert run(capsys, "view", "run.npz", "--html", "other.html")[0] == 0 and (folder / "other.html").is_file()
    (folder / "run.html").unlink()
    assert run(capsys, "view", "run.npz", "--no-page")[0] == 0 and not (folder / "run.html").exists()


def test_a_page_does_not_take_the_place_of_its_recording(capsys, folder):
    run(capsys, "watch", "user.py:shallow", *HOW, "--targets", "y.npy", "--out", "run.html")
    before = (folder / "run.html").read_bytes()
    for more in ((), ("--html", "./run.html")):
        status, _, err = run(capsys, "view", "run.html", *more)
        assert status == 2 and "the page would take the place of the recording" in err
    assert (folder / "run.html").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --targets FILE for the squared error, or --labels FILE"),
        (["--targets", "y.npy", "--labels", "labels.npy"], "give --targets FILE"),
        (["--targets", "y.npy", "--held-out", "6"], "of 6 inputs 6 are held out"),
        (["--targets", "x.npy"], "targets have shape"),
        (["--labels", "y.npy"], "labels are 0, 1, 2"),
        (["--targets", "y.npy", "--widths", "8,wide"], "write whole numbers, and inf for the limit"),
        (["--targets", "y.npy", "--optimizer", "none"], "the optimizers are"),
        (["--targets", "y.npy", "--parametrization", "sp"], "neither the limit of feature learning"),
        (["--targets", "y.npy", "--batch", "7"], "there are 6 training inputs"),
        (["--targets", "y.npy", "--out", "nowhere/run.npz"], "nowhere"),
        (["--targets", "y.npy", "--out", "y.npy"], "y.npy"),
        (["--targets", "y.npy", "--lr", "-1"], "a learning rate is 0 or more"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(capsys, folder, arguments, said):
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    status, out, err = run(capsys, "watch", "user.py:shallow", *HOW, *arguments)
    assert status == 2 and out == "" and err.startswith("tplimits: ") and err.count("\n") == 1
    assert said in err
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


def test_sizes_that_are_missing_are_told_in_words_of_the_command_line(capsys):
    how = [word for word in HOW if word not in ("--size", "label=2")]
    status, _, err = run(capsys, "watch", "user.py:shallow", *how, "--targets", "y.npy")
    assert status == 2 and "the axis `label` of `shallow` has no size: add --size label=" in err


def test_files_that_are_no_recordings_are_told_in_one_line(capsys, folder):
    (folder / "text.npz").write_text("text")
    for name in ("x.npy", "text.npz", "nothing.npz", "/", "."):
        status, out, err = run(capsys, "view", name)
        assert status == 2 and out == "" and err.count("\n") == 1 and name in err
    assert not list(folder.glob("*.html"))
