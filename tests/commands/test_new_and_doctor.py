"""A network to start from, and what is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tplimits.cli import main
from tplimits.version import VERSION

ROOT = Path(__file__).parents[2]


def test_a_new_network_runs_as_it_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine"]) == 0
    printed = capsys.readouterr().out
    assert "tplimits derive mine.py:mine --regime kernels" in printed
    assert main(["derive", "mine.py:mine", "--regime", "kernels", "--html", "mine.html"]) == 0
    assert (tmp_path / "mine.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["classify", "mine.py:mine", "--json", "mine.json"]) == 0
    assert '"regime"' in (tmp_path / "mine.json").read_text(encoding="utf-8")
    assert main(["new", "mine"]) == 2 and "is there already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../x", "1x", "class", "a b", ""])
def test_a_name_that_is_none_is_refused(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 2
    assert list(tmp_path.iterdir()) == [] and "is no name" in capsys.readouterr().err


def test_doctor_lists_what_there_is(capsys):
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for name in ("sympy", "numba", "extra plot", "pdflatex", VERSION):
        assert name in printed
    assert not re.search(r"\bpytest\b", printed)


def test_the_version_is_told_without_loading_the_package():
    code = "import sys; sys.argv = ['tplimits', '--version']; import tplimits_start as s; s.main(); " + (
        "print('tplimits' in sys.modules, 'sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "False False"


def test_versions_and_files_of_the_package_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == VERSION and f"version: {VERSION}" in citation
    assert (ROOT / "tplimits" / "py.typed").exists() and "Typing :: Typed" in project["classifiers"]
