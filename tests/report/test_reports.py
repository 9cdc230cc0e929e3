"""One report of every result: complete, whole in one file, safe with hostile names, and the same door for all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import shaped
from typesetting import typeset

import tplimits as tp
from tplimits import zoo
from tplimits.pages.report import POLICY, Reported
from tplimits.regimes.known import REGIMES
from tplimits.sampling.verdict import Verdict

HOSTILE = "</pre><script>alert(1)</script>& \\end{verbatim} $x_{ %"
UNSEEN = "\u202e\x07"


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


def width():
    return tp.derive(zoo.get("tied_relu").program)


def trained():
    limit = tp.derive(net, tp.NeuralTangent(tp.SGD()))
    return limit.evaluate(np.eye(2), error=tp.squared_error(np.ones(2)), lr=0.5, steps=3, f0=np.zeros(2))


RESULTS = {
    "width": width,
    "kernels": lambda: tp.derive(net, tp.Kernels()),
    "feature": lambda: tp.derive(net, tp.MaximalUpdate(tp.SGD())),
    "operator": lambda: tp.derive(net, tp.NeuralTangent(tp.SGD())),
    "depth": lambda: tp.derive(shaped.relu_mlp, tp.Proportional()),
    "verdict": lambda: tp.check(width(), widths=(32, 64, 128), draws=20, seed=1, progress=False),
    "run": trained,
    "classification": lambda: tp.classify(2, tp.NTP, tp.SGD()),
    "recording": lambda: tp.watch(
        net, np.eye(2), error=tp.squared_error(np.ones(2)), optimizer=tp.SGD(), lr=0.5, steps=2, widths=(8,)
    ),
}


@pytest.fixture(scope="module", params=RESULTS)
def report(request):
    return RESULTS[request.param]().report()


def test_every_limit_and_every_result_has_one():
    kinds = [limit for _, limit in REGIMES] + [Verdict, tp.TrainingRun, tp.Classification, tp.Recording]
    assert [kind for kind in kinds if not issubclass(kind, Reported) or kind.report is Reported.report] == []


def test_it_says_what_came_out_in_one_sentence_and_shows_a_picture(report):
    assert report.answer and "\n" not in report.answer
    assert "<svg" in report.picture or "<svg" in report.graph
    assert str(report) == report.text and report._repr_mimebundle_()["text/plain"] == report.text


def test_pages_load_nothing_and_run_one_script(report):
    page = report.html()
    assert page.count("<script>") == 1 and POLICY.replace("'", "&#39;") in page
    assert "script-src 'sha256-" in POLICY and "default-src 'none'" in POLICY
    assert not re.search(r"@import|url\(|<link|<img|<iframe| on\w+=", page)
    assert len(page) < 3_000_000


def test_files_are_written_by_their_names(report, tmp_path):
    for suffix in ("html", "tex", "json"):
        report.save(tmp_path / f"x.{suffix}")
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["format"].startswith("tplimits ")
    log = typeset((tmp_path / "x.tex").read_text(encoding="utf-8"), tmp_path)
    assert not re.search(r"^!", log, re.MULTILINE)
    with pytest.raises(tp.EvaluationError, match=r"\.html, \.tex or \.json"):
        report.save(tmp_path / "x.pdf")


def test_notebooks_get_html_without_a_script(report):
    shown = report._repr_html_()
    assert "<script" not in shown and report.title.split("<")[0][:20] in shown


def test_hostile_names_are_shown_and_mean_nothing(tmp_path):
    @tp.program
    def odd(x: tp.Vector):
        y = (2 * x).named(HOSTILE)
        return tp.avg(y * x)

    report = tp.derive(odd).report()
    report = replace(report, answer=report.answer + UNSEEN, program=report.program + UNSEEN, text=report.text + UNSEEN)
    for shown in (report.html(), report._repr_html_()):
        assert shown.count("<script") == (1 if shown == report.html() else 0)
        assert "\u202e" not in shown and "\x07" not in shown and "alert(1)" in shown
    assert not re.search(r"^!", typeset(report.tex(), tmp_path), re.MULTILINE)


@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_says_nothing(tmp_path, width):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))))
    RESULTS["kernels"]().report().save(tmp_path / "x.html")
    size = [f"--window-size={width},900", f"--screenshot={tmp_path / 'x.png'}", f"--user-data-dir={tmp_path / 'of'}"]
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    command = [browser, *quiet, *size, (tmp_path / "x.html").as_uri()]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stderr
    assert "CONSOLE" not in said and (tmp_path / "x.png").stat().st_size > 5000
