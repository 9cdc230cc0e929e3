"""The picture of a verdict."""

from __future__ import annotations

import sys

import pytest
from checks import run_check

from tplimits.errors import EvaluationError
from tplimits.sampling.verdict import Claim


def verdict_of(program, claims):
    return run_check(program, claims, widths=(16, 32, 64), draws=20, progress=False)


def test_one_panel_a_claim_and_a_file_when_asked(programs, tmp_path):
    labels = [f"⟨return[token={i}]|return[token={j}]⟩" for i in range(3) for j in range(i, 3)]
    verdict = verdict_of(programs.tokens, [Claim(label, 0.5) for label in labels[:4]])
    path = tmp_path / "verdict.png"
    figure = verdict.plot(path)
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
    drawn = [panel for panel in figure.axes if panel.axison]
    assert len(drawn) == 4
    assert {panel.get_ylabel() for panel in drawn} == set(labels[:4])
    assert figure.get_suptitle().startswith("rejected at level 0.01")


def test_a_picture_without_a_path_writes_nothing(programs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figure = verdict_of(programs.pairs, [Claim("return", 1.128)]).plot()
    (panel,) = figure.axes
    assert panel.get_xlabel() == "width n (axis in 1/n)" and not list(tmp_path.iterdir())
    assert panel.get_xticklabels()[0].get_text() == "∞"


def test_roots_of_the_width_on_the_axis(programs):
    (panel,) = verdict_of(programs.shaped, [Claim("return", 0.4)]).plot().axes
    assert panel.get_xlabel() == "width n (axis in n^(−1/2))"


def test_matplotlib_is_an_extra(programs, monkeypatch):
    verdict = verdict_of(programs.pairs, [Claim("return", 1.128)])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(EvaluationError, match="a picture needs Matplotlib, which is not installed: pip install"):
        verdict.plot()
