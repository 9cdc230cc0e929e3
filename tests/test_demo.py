"""The demonstration, made small."""

from __future__ import annotations

import inspect

import pytest
from rich.console import Console

import tplimits as tp
from tplimits import demo


@pytest.mark.sampling
def test_the_demonstration_accepts_the_limit_rejects_its_twin_and_writes_its_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "WIDTHS", (16, 32))
    monkeypatch.setattr(demo, "NETWORKS", 5)
    assert demo.demonstrate(tmp_path / "out", Console())
    printed = capsys.readouterr().out
    for words in ("Accepted by", "Rejected by", "E[∂|_4⟩/∂h\u0302] = ⟨x|x⟩⁺⟨h\u0302|_4⟩"):
        assert words in printed
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["convergence.png", "tied.html", "tied.tex", "verdict.png"]
    assert (tmp_path / "out" / "convergence.png").stat().st_size > 10_000


def test_the_program_that_is_shown_is_the_one_that_runs():
    names = {"tp": tp}
    exec(compile(demo.SOURCE, "shown", "exec"), names)
    assert names["tied"] == demo.tied


def test_the_picture_has_a_panel_for_each_value():
    values = demo.networks((8, 16), 4, Console(quiet=True))
    figure = demo.picture(values, dict.fromkeys(values, 0.5), dict.fromkeys(values, 0.0), (8, 16))
    assert len(figure.axes) == 2
    assert [line.get_label() for line in figure.axes[0].lines][-2:] == ["limit 0.5000", "no dot-ket 0.0000"]


def test_main_names_its_folder(monkeypatch):
    seen = []
    monkeypatch.setattr(demo, "demonstrate", lambda folder, console: seen.append(str(folder)) or True)
    assert demo.main([]) == demo.main(["elsewhere"]) == 0
    assert seen == ["demo", "elsewhere"]
    assert inspect.getdoc(demo.main)
