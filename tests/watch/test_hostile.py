"""The same bad input to every engine of training, and to the command line: the same refusal, before any work."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tplimits as tp
from tplimits import cli
from tplimits.errors import TplimitsError

FILE = """
import tplimits as tp

@tp.network
def tokens(x: tp.Input["place"].of("vocab"), E: tp.Vector["vocab"], W: tp.Matrix, u: tp.Vector["vocab"], *, γ=1):
    h = tp.tanh(tp.sum(E.sel(vocab=x), over="place"))
    return u * tp.tanh(W @ h) * γ

tokens = tokens.bind(vocab=3, place=2)
"""
X = [[0, 1], [1, 2], [2, 0], [1, 1]]
LABELS = [0, 1, 2, 1]


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    place = tmp_path_factory.mktemp("nets") / "nets.py"
    place.write_text(FILE, encoding="utf-8")
    found: dict[str, Any] = {}
    exec(compile(FILE, str(place), "exec"), found)
    return found["tokens"]


@pytest.fixture(scope="module")
def limits(net):
    return {regime: tp.derive(net, regime(tp.SGD())) for regime in (tp.MaximalUpdate, tp.NeuralTangent)}


def engines(net, limits):
    """What takes data, a loss, rates and constants, by name."""
    kets, tangent = limits[tp.MaximalUpdate], limits[tp.NeuralTangent]
    few = {"particles": 128, "replicates": 2, "block": 64}

    def watched(widths):
        return lambda X, **how: tp.watch(net, X, optimizer=tp.SGD(), widths=widths, **few, **how)

    return {
        "kets": lambda X, **how: kets.evaluate(X, **few, **how),
        "unrolled": lambda X, **how: kets.unrolled(X, **how),
        "exact": lambda X, **how: kets.exact(X, **how),
        "operator": lambda X, **how: tangent.evaluate(X, **how),
        "check of kets": lambda X, **how: tp.check(kets, X=X, draws=8, **few, **how),
        "check of the operator": lambda X, **how: tp.check(tangent, X=X, draws=8, **how),
        "networks": watched(4),
        "limit": watched(tp.inf),
    }


#: (what is bad, what is said of it)
DATA = [
    ([[0, 3]] * 4, "holds 3; it takes indices of `vocab`, which has 3 entries, from 0 to 2"),
    ([[0, -1]] * 4, "holds -1; it takes indices of `vocab`"),
    ([[0, 0.5]] * 4, "holds 0.5; it takes indices of `vocab`, whole numbers from 0 on"),
    ([[0, np.nan]] * 4, "`X` has NaN or infinite entries"),
    ([[0, 1e300]] * 4, "holds 1e\\+300; it takes indices"),
    ([["a", "b"]] * 4, "`X` is given a value of type list; it takes an array of numbers"),
    ([[0], [1, 2]], "`X` is given a value of type list; it takes an array of numbers"),
    ([[1j, 0]] * 4, "`X` is given complex numbers"),
    (np.zeros((0, 2)), "X holds no input"),
    ([[0, 1, 2]] * 4, "X has 3 entries along `place`; `tokens` has 2"),
    ([0, 1], "X has shape \\(2,\\); `x` takes \\(N, place\\)"),
    ({"y": X}, "X has y; `tokens` takes x"),
]
LOSSES = [
    (lambda: tp.cross_entropy([0, 1]), "the labels have shape \\(2,\\), the outputs \\(4, 3\\)"),
    (lambda: tp.cross_entropy(LABELS * 2), "the labels have shape \\(8,\\), the outputs \\(4, 3\\)"),
    (lambda: tp.cross_entropy([0, 1, 2, 3]), "the label 3 has no output; with 3 classes labels go from 0 to 2"),
    (lambda: tp.cross_entropy([0, 1, 2, -1]), "a training label is -1; labels are 0, 1, 2"),
    (lambda: tp.cross_entropy([0, 1, 2, 0.5]), "a training label is 0.5"),
    (lambda: tp.cross_entropy([0, 1, 2, np.nan]), "a training label is nan"),
    (lambda: tp.cross_entropy(["a"] * 4), "it takes an array of numbers"),
    (lambda: tp.cross_entropy(["0", "1", "2", "0"]), "it takes an array of numbers"),
    (lambda: tp.cross_entropy(np.ma.masked_array(LABELS, mask=[0, 0, 1, 0])), "is given a masked array"),
    (lambda: tp.cross_entropy(LABELS, weights=[1, 1, 1, -1]), "weights are not negative"),
    (lambda: tp.cross_entropy(LABELS, weights=[1, 1, 1, np.nan]), "has NaN or infinite entries"),
    (lambda: tp.cross_entropy(LABELS, weights=[1, 1]), "has shape \\(2,\\); give \\(4,\\)"),
    (lambda: tp.cross_entropy(LABELS, weights=[0] * 4), "all weights of training inputs are zero"),
    (lambda: tp.cross_entropy(LABELS, smoothing=1), "give a number from 0 on, below 1"),
    (lambda: tp.cross_entropy(LABELS, smoothing=-0.1), "give a number from 0 on, below 1"),
    (lambda: tp.cross_entropy(LABELS, smoothing=np.nan), "smoothing=nan: give a finite number"),
    (lambda: tp.cross_entropy(LABELS, train=[False] * 4), "the mask selects no input"),
    (lambda: tp.cross_entropy(LABELS, train=[9]), "give True or False for each of the 4 inputs"),
    (lambda: tp.squared_error(np.ones(4)), "the targets have shape \\(4,\\), the outputs \\(4, 3\\)"),
    (lambda: tp.squared_error(np.full((4, 3), np.inf)), "the target of training input 0 is NaN or infinite"),
    (lambda: 3, "error=3: give a function of the outputs"),
    (lambda: lambda: 0, "error= is called as error\\(f\\) or error\\(f, t\\)"),
    (lambda: lambda f: f[0], "error= gave (an array of )?shape \\(3,\\)"),
]
SETTINGS = [
    ({"lr": np.nan}, "lr=nan: give a finite number"),
    ({"lr": "fast"}, "lr='fast': give a finite number"),
    ({"lr": -1}, "lr=-1: a learning rate is 0 or more"),
    ({"lr": {"Q": 1.0}}, "lr={…}: `Q` is no trained parameter"),
    ({"lr": lambda t: np.nan}, "lr\\(0\\)=nan: give a finite number"),
    ({"lr": lambda t: "fast"}, "lr\\(0\\)='fast': give a finite number"),
    ({"lr": lambda t: np.ones(2)}, "lr\\(0\\)=array"),
    ({"lr": lambda t: -float(t)}, "lr\\(1\\)=-1.0: a learning rate is 0 or more"),
    ({"lr": lambda: 1}, "lr= is called as lr\\(t\\)"),
    ({"γ": lambda t: np.nan}, "γ\\(0\\)=nan: give a finite number"),
    ({"γ": lambda t: "warm"}, "γ\\(0\\)='warm': give a finite number"),
    ({"γ": lambda t: np.ones(2)}, "γ\\(0\\)=array"),
    ({"γ": lambda: 1}, "γ= is called as γ\\(t\\)"),
    ({"γ": np.nan}, "a constant is a finite real number"),
    ({"δ": 1}, "δ=…: `tokens` has no constant, parameter or axis of this name"),
    ({"δ": lambda t: 1}, "δ=…: `tokens` has no constant, parameter or axis of this name"),
    ({"W": lambda t: 1}, "`W` is no constant of `tokens`"),
    ({"constants": {3: 1}}, "3 is not a name"),
    ({"constants": "abc"}, "constants='abc': give names and numbers"),
    ({"steps": 1.5}, "steps=1.5: give a whole number"),
    ({"steps": -1}, "steps=-1: give a whole number"),
    ({"steps": "two"}, "steps='two': give a whole number"),
]


def refused_everywhere(net, limits, said, change):
    for name, engine in engines(net, limits).items():
        with pytest.raises(TplimitsError, match=said):
            engine(**{"X": X, "lr": 0.1, "steps": 2, **change()})
            pytest.fail(f"{name} took it")


@pytest.mark.parametrize(("data", "said"), DATA)
def test_data(net, limits, data, said):
    loss = tp.cross_entropy(LABELS)
    refused_everywhere(net, limits, said, lambda: {"X": data, "error": loss})


@pytest.mark.parametrize(("loss", "said"), LOSSES)
def test_losses(net, limits, loss, said):
    refused_everywhere(net, limits, said, lambda: {"error": loss()})


@pytest.mark.parametrize(("settings", "said"), SETTINGS)
def test_settings(net, limits, settings, said):
    loss = tp.cross_entropy(LABELS)
    refused_everywhere(net, limits, said, lambda: {"error": loss, **settings})


@pytest.mark.parametrize("data", [d for d, _ in DATA[:6]])
def test_kernels(net, data):
    with pytest.raises(TplimitsError):
        tp.derive(net, tp.Kernels()).evaluate(data)


def test_outputs_beyond_all_bounds_are_never_numbers_without_an_error(limits):
    with pytest.raises(TplimitsError, match="training diverges"):
        limits[tp.MaximalUpdate].evaluate(
            X, error=tp.cross_entropy(LABELS), lr=1e300, steps=2, particles=128, replicates=2, block=64
        )


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        ({"x": [[0, 3]] * 4}, (), "it takes indices of `vocab`"),
        ({"x": [[0, -1]] * 4}, (), "it takes indices of `vocab`"),
        ({"x": [[0, np.nan]] * 4}, (), "NaN or infinite"),
        ({"x": np.zeros((0, 2))}, (), "no input"),
        ({"y": [0, 1]}, (), "the labels have shape"),
        ({"y": [0, 1, 2, 3]}, (), "the label 3 has no output"),
        ({"y": [0, 1, 2, -1]}, (), "a training label is -1"),
        ({}, ("--widths", "4,x"), "4,x"),
        ({}, ("--widths", "0"), "widths are positive whole numbers"),
        ({}, ("--seeds", "0"), "seeds=0"),
        ({}, ("--every", "0"), "every=0"),
        ({}, ("--batch", "0"), "size=0"),
        ({}, ("--batch", "9"), "there are 4 training inputs"),
        ({}, ("--set", "δ=1"), "has no constant"),
        ({}, ("--set", "γ=nan"), "nan"),
        ({}, ("--lr", "nan"), "lr=nan"),
        ({}, ("--steps", "-1"), "steps=-1"),
        ({}, ("--particles", "1"), "particles=1"),
    ],
)
def test_the_command_line(tmp_path, monkeypatch, capsys, files, options, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "nets.py").write_text(FILE, encoding="utf-8")
    for name, values in {"x": X, "y": LABELS, **files}.items():
        np.save(f"{name}.npy", np.array(values))
    how = ("--data", "x.npy", "--labels", "y.npy", "--lr", "0.1", "--steps", "2", "--widths", "4", "--out", "run.npz")
    status = cli.main(("watch", "nets.py:tokens", *how, *options))
    printed = capsys.readouterr()
    assert status != 0 and said in printed.err.replace("\n", " ") and "Traceback" not in printed.err
    assert not (tmp_path / "run.npz").exists()


@pytest.mark.parametrize("text", [b"", b"PK\x03\x04", b"\x80\x04K\x01.", b"<script>alert(1)</script>", b"\x00" * 4096])
def test_what_is_no_recording(tmp_path, capsys, text):
    path = tmp_path / "run.npz"
    path.write_bytes(text)
    with pytest.raises(tp.EvaluationError):
        tp.load_recording(path)
    assert cli.main(("view", str(path), "--html", str(tmp_path / "run.html"))) != 0
    assert "Traceback" not in capsys.readouterr().err and not (tmp_path / "run.html").exists()
