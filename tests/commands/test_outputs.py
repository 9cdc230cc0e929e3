"""The same door for every command: pages, LaTeX and JSON, in files or on the output, whatever names say."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typesetting import typeset

from tplimits.cli import main

HOSTILE = "</pre><script>alert(1)</script>&\"\\' $x_{ %\\\\end{verbatim}\\\\input{x}#1שלום"
SOURCE = f"""
import tplimits as tp

def f(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh((W @ tp.tanh(tp.sum(U * ξ, over="d"))).named('{HOSTILE}'))

def g(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W.T @ tp.tanh(W @ x)).named('{HOSTILE}'))

f.__name__ = g.__name__ = '<b>x</b>\\\\input{{y}}$[red]'
net, tied = tp.network(f), tp.program(g)
"""
COMMANDS = {
    "derive": ("derive", "h.py:net", "--regime", "kernels"),
    "derive width": ("derive", "h.py:tied"),
    "evaluate": ("evaluate", "h.py:net", "--data", "X.npy"),
    "evaluate width": ("evaluate", "h.py:tied"),
    "classify": ("classify", "h.py:net", "--optimizer", "adam", "--weight-decay", "0.1"),
    "check": ("check", "h.py:tied", "--widths", "32,64,128", "--draws", "20"),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.py").write_text(SOURCE, encoding="utf-8")
    np.save(tmp_path / "X.npy", np.eye(2))
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_hostile_names_change_nothing(place, capsys, name):
    assert main([*COMMANDS[name], "--html", "o.html", "--latex", "o.tex", "--json", "o.json"]) == 0
    page, tex = (place / "o.html").read_text(encoding="utf-8"), (place / "o.tex").read_text(encoding="utf-8")
    assert page.count("<script") == 1 and "<b>x</b>" not in page
    assert json.loads((place / "o.json").read_text(encoding="utf-8"))
    document = tex
    if "documentclass" not in tex:
        document = "\\documentclass{article}\\usepackage{amsmath}\\begin{document}\n" + tex + "\\end{document}"
    assert not re.search(r"^!", typeset(document, place), re.MULTILINE)
    assert "<script>" not in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_json_on_the_output_is_all_of_it(place, capsys, name):
    assert main([*COMMANDS[name], "--json", "-"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) and told.err
    assert not (place / "-").exists()
    assert main([*COMMANDS[name]]) == 0
    assert capsys.readouterr().out  # and text again afterwards


def test_two_documents_do_not_share_the_output(place, capsys):
    assert main([*COMMANDS["derive"], "--json", "-", "--html", "-"]) == 2
    assert "same file" in capsys.readouterr().err
