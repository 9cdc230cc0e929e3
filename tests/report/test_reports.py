"""One report of every result: complete, whole in one file, safe with hostile names, and the same door for all."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import numpy as np
import pytest
import shaped
from typesetting import typeset

import tplimits as tp
from tplimits import zoo
from tplimits.pages.report import POLICY, Reported, harmless
from tplimits.regimes.classification.finite.coordinates import CoordinateCheck
from tplimits.regimes.classification.widening import Widening
from tplimits.regimes.depth.numbers.paths import Paths
from tplimits.regimes.kernels.numbers.request import KernelPair, NNGPAlone
from tplimits.regimes.kernels.regression.regression import Prediction
from tplimits.regimes.known import REGIMES
from tplimits.report.written import program_graph
from tplimits.sampling.verdict import Verdict
from tplimits.torch.report import ImportReport
from tplimits.torch.scaling.plan import Plan
from tplimits.torch.scaling.verdicts import CoordinateReport, Measured
from tplimits.watch.page.browser import Browser

#: a name that asks for trouble in HTML, in JavaScript and in TeX; שלום is written from the right
HOSTILE = '</pre><script>document.title="taken"</script>&"\' $x_{ %\\end{verbatim}\\input{x}#1שלום'
UNSEEN = "\u202eright\x07"


def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh((W @ tp.tanh(tp.sum(U * ξ, over="d"))).named(HOSTILE))


def tied(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W.T @ tp.tanh(W @ x)).named(HOSTILE))


def block(x: tp.State["token"], W: tp.Matrix, *, c):
    h = (W @ x).named(HOSTILE)
    return shaped.shaped_relu(h, c, 0) / tp.sqrt(tp.expect(lambda g: shaped.shaped_relu(g, c, 0) ** 2))


for function in (net, tied, block):
    function.__name__ = HOSTILE
net, tied, block = tp.network(net), tp.program(tied), tp.block(block)


def width():
    return tp.derive(tied)


def trained():
    limit = tp.derive(net, tp.NeuralTangent(tp.SGD()))
    return limit.evaluate(np.eye(2), error=tp.squared_error(np.ones(2)), lr=0.5, steps=3, f0=np.zeros(2))


def paths():
    sde = tp.derive(block, tp.Proportional())
    return sde.simulate(np.eye(2) + 0.1, T=0.2, dt=0.05, paths=64, seed=3, record=True, c=1)


def stored(tmp_path_factory):
    place = tmp_path_factory.mktemp("kernels") / "gram"
    kernels().evaluate(np.eye(3), out=place)
    return tp.load_kernels(place)


def kernels():
    return tp.derive(net, tp.Kernels())


RESULTS = {
    "width": width,
    "kernels": kernels,
    "feature": lambda: tp.derive(net, tp.MaximalUpdate(tp.SGD())),
    "operator": lambda: tp.derive(net, tp.NeuralTangent(tp.SGD())),
    "depth": lambda: tp.derive(block, tp.Proportional()),
    "tangent": lambda: tp.derive(block, tp.Proportional(tangent=True)),
    "gradients": lambda: tp.derive(block, tp.Proportional(tangent=True)).gradients(np.eye(2) + 0.1, 0.2, paths=64, c=1),
    "verdict": lambda: tp.check(width(), widths=(32, 64, 128), draws=20, seed=1, progress=False),
    "run": trained,
    "classification": lambda: tp.classify(net, tp.NTP, tp.SGD()),
    "coordinates": lambda: tp.classify(net, tp.MUP, tp.SGD()).check(widths=(16, 32), steps=1, draws=4),
    "widening": lambda: Widening(net, tp.SP, tp.SGD()),
    "pair": lambda: kernels().evaluate(np.eye(3)),
    "nngp alone": lambda: NNGPAlone(np.eye(2), 0.0, HOSTILE + UNSEEN),
    "prediction": lambda: kernels().posterior(np.eye(3), [1.0, 0.0, 2.0], np.ones((2, 3)), noise=0.1),
    "stored": stored,
    "paths": paths,
    "scaling": lambda: CoordinateReport(HOSTILE + UNSEEN, "adam", (64, 128), (MEASURED,)),
    "import": lambda: Imported(),
    "recording": lambda: tp.watch(
        net, np.eye(2), error=tp.squared_error(np.ones(2)), optimizer=tp.SGD(), lr=0.5, steps=2, widths=(8,)
    ),
}
MEASURED = Measured("value", HOSTILE, 1, Fraction(0), 0.1, 0.05, (1.0, 1.1), "agrees")
#: results that hold a number drawn from a seed
SEEDED = {"verdict", "run", "coordinates", "paths"}


class Imported:
    """What a report of an import needs; tests of PyTorch have an environment of their own."""

    def report(self):
        facts = {"name": HOSTILE + UNSEEN, "instructions": 3, "operations": 4, "widths": [64, 128, 256], "by row": True}
        facts |= {"permutation error": 1e-16, "axes": {"n": "1"}, "rounded": [], "entries": {}, "outputs": 2}
        facts |= {"evaluated": [HOSTILE], "dependent": {HOSTILE: "moves"}}
        return ImportReport.of(
            {**facts, "verdicts": {"SGD": {"sentence": "it can be widened."}}}, program_graph(net), str(net)
        )


@pytest.fixture(scope="module", params=RESULTS)
def report(request, tmp_path_factory):
    make = RESULTS[request.param]
    return (make(tmp_path_factory) if make is stored else make()).report()


def test_every_limit_and_every_result_has_one():
    kinds = [limit for _, limit in REGIMES] + [Verdict, tp.TrainingRun, tp.Classification, tp.Recording, Paths]
    kinds += [KernelPair, NNGPAlone, tp.StoredKernels, Prediction, CoordinateCheck, Widening]
    kinds += [CoordinateReport, Plan]
    assert [kind for kind in kinds if not issubclass(kind, Reported) or kind.report is Reported.report] == []


def test_drawn_numbers_come_with_their_seed(report, request):
    if request.node.callspec.params["report"] in SEEDED:
        assert report.seed is not None and f"seed {report.seed}" in report.html()
        assert json.loads(report.document)["seed"] == report.seed


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
    assert len(shown) < 1_000_000


def test_names_are_shown_and_mean_nothing(report):
    for shown in (report.html(), report._repr_html_()):
        assert shown.count("<script") == (1 if shown == report.html() else 0)
        assert not set(UNSEEN.replace("right", "")) & set(shown)


def test_names_with_what_is_not_printed_are_refused():
    with pytest.raises(tp.ProgramError, match="printable"):

        @tp.program
        def odd(x: tp.Vector):
            return tp.avg((2 * x).named("a" + UNSEEN))


@pytest.fixture(scope="module")
def browser():
    with Browser(1400, 900) as found:
        yield found


@pytest.fixture
def page(report, browser, tmp_path):
    report.save(tmp_path / "x.html")
    browser.events.clear()
    browser.open(tmp_path / "x.html")
    return browser


SCREENS = ((400, "dark"), (1400, "light"), (1400, "dark"), (400, "light"))
#: what of a picture is drawn, how it stands out from the page, and whether the page is wider than the window
LOOK = """(() => {
  const pictures = [...document.querySelectorAll("body > .wide > svg, body > details svg")];
  document.querySelectorAll("details").forEach(d => d.open = true);
  const back = getComputedStyle(document.documentElement).backgroundColor;
  const text = pictures.map(p => p.querySelector("text")).filter(Boolean);
  return {sizes: pictures.map(p => p.getBoundingClientRect().width), title: document.title,
          ink: text.map(t => getComputedStyle(t).fill), paper: getComputedStyle(document.body).color,
          over: document.documentElement.scrollWidth - innerWidth};
})()"""


def test_browsers_open_it_in_two_seconds(page, report, tmp_path):
    """Of the page's own thread: what a browser computes until all is drawn, whatever else the machine does."""
    page.call("Performance.enable", timeDomain="threadTicks")
    for width, scheme in SCREENS:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.open(tmp_path / "x.html")
        page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        spent = {m["name"]: m["value"] for m in page.call("Performance.getMetrics")["metrics"]}
        assert 0 < spent["TaskDuration"] < 2


def test_browsers_show_it_on_any_screen_and_say_nothing(page, report):
    for width, scheme in SCREENS:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        seen = page.run(LOOK)
        assert seen["sizes"] and min(seen["sizes"]) > 100 and seen["over"] <= 0
        assert set(seen["ink"]) <= {seen["paper"]}
        assert seen["paper"] == ("rgb(255, 255, 255)" if scheme == "dark" else "rgb(0, 0, 0)")
        assert seen["title"] == " ".join(str(harmless(report.title)).split())
    told = [e["method"] for e in page.events]
    assert not {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"} & set(told)
    urls = {e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"}
    assert {url.partition(":")[0] for url in urls} <= {"about", "file"} and len(urls) <= 2


def test_a_page_is_called_by_the_first_words_of_what_is_printed():
    assert tp.derive(zoo.get("tied_relu").program)._title == "Width limit of tied_relu"
