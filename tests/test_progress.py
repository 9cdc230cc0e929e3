"""Progress: a callback, a bar, or silence."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.progress import reporting


def test_a_callback_is_told_what_was_planned_and_done():
    seen = []
    with reporting(lambda done, total, text: seen.append((done, total, text))) as report:
        report.plan(10, "pilot")
        report.advance(10)
        report.plan(5, "sampling")
    assert seen == [(0, 10, "pilot"), (10, 10, "pilot"), (10, 15, "sampling")]


def test_silence_outside_a_terminal_and_on_request(capsys):
    for progress in (None, False):
        with reporting(progress) as report:
            report.plan(1, "pilot")
            report.advance(1)
    assert capsys.readouterr().err == ""


def test_a_bar_on_request(capsys):
    with reporting(True) as report:
        report.plan(1, "pilot")
        report.advance(1)
    assert "pilot" in capsys.readouterr().err


@pytest.mark.parametrize("progress", ["yes", 1, np.ones(2)], ids=["text", "one", "array"])
def test_what_asks_for_no_progress_is_refused(progress):
    refused = pytest.raises(tp.EvaluationError, match=r"progress=.*: give True, False, None, or a function of")
    with refused, reporting(progress):
        pass
