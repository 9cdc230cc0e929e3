"""Pictures of coordinate checks, and their words, from rows that no network was trained for."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

import tplimits as tp
from tplimits.torch.scaling.verdicts import CoordinateReport, Measured

WIDTHS = (64, 128, 256)


def row(kind, name, step, p, verdict):
    sizes = tuple((n / 64) ** p for n in WIDTHS) if p > float("-inf") else (0.0,) * 3
    return Measured(kind, name, step, Fraction(0), p, 0.02, sizes, verdict)


def report(*rows):
    return CoordinateReport("net", "adamw", WIDTHS, rows)


def test_causes_are_told_before_what_follows_from_them():
    found = report(
        row("value", "fc", 1, 0.9, "grows"), row("image", "fc.weight", 1, 0.9, "grows"), row("f", "f", 1, 0.0, "agrees")
    )
    assert not found.accepted and found.blamed == ("fc.weight",)
    assert "`fc.weight` after 1 step goes like n^0.90 ± 0.02" in found.sentence
    assert "its rate is too large by about n^0.9" in found.sentence
    assert json.loads(found.to_json())["rows"][0]["counted"] == "0"
    still = report(row("image", "fc.weight", 15, float("-inf"), "vanishes"))
    assert "no optimizer moves it" in still.sentence and json.loads(still.to_json())
    assert report(row("f", "f", 1, 0.1, "agrees")).accepted


def test_a_panel_for_each_value_and_alarms_first(tmp_path):
    rows = [row("value", f"layer {i}", t, 0.01 * i, "agrees") for i in range(3) for t in (0, 1)]
    rows.append(row("score", "scores", 1, 0.5, "grows"))
    figure = report(*rows).plot(tmp_path / "check.png")
    titles = [panel.get_title() for panel in figure.axes if panel.get_title()]
    assert titles == ["scores", "layer 0", "layer 1", "layer 2"]
    assert (tmp_path / "check.png").stat().st_size > 5000
    drawn = figure.axes[0].get_lines()[0].get_ydata()
    assert drawn[-1] / drawn[0] == pytest.approx(2)


def test_nothing_to_draw_is_told():
    with pytest.raises(tp.EvaluationError, match="nothing moves"):
        report().plot()
