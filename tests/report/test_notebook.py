"""Every result in a notebook that is run: HTML with a picture in it, a plain text beside it, and no warning."""

from __future__ import annotations

import base64

import nbclient
import nbformat
import pytest

from tplimits.watch.page.browser import Browser

SETUP = """
import warnings; warnings.simplefilter("error")
import numpy as np, tplimits as tp

@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))

@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    return tp.avg(x * (W.T @ tp.tanh(W @ x)))

@tp.block
def block(x: tp.State["token"], W: tp.Matrix, *, c):
    shaped = lambda h: (1 + c / tp.sqrt(tp.n)) * tp.relu(h) - tp.relu(-h)
    return shaped(W @ x) / tp.sqrt(tp.expect(lambda g: shaped(g) ** 2))

X, error = np.eye(3), tp.squared_error(np.ones(3))
kernels, operator = tp.derive(net, tp.Kernels()), tp.derive(net, tp.NeuralTangent(tp.SGD()))
sde, classified = tp.derive(block, tp.Proportional()), tp.classify(net, tp.MUP, tp.SGD())
"""
#: what is shown, one cell each; those after the line are pictures of Matplotlib
CELLS = {
    "width": "tp.derive(tied)",
    "kernels": "kernels",
    "operator": "operator",
    "feature learning": "tp.derive(net, tp.MaximalUpdate(tp.SGD()))",
    "depth": "sde",
    "tangent": "tangent = tp.derive(block, tp.Proportional(tangent=True)); tangent",
    "gradients": "tangent.gradients(np.eye(2), 0.2, paths=64, seed=1, c=1)",
    "classification": "classified",
    "verdict": "verdict = tp.check(tp.derive(tied), widths=(32, 64, 128), draws=20); verdict",
    "pair": "kernels.evaluate(X)",
    "stored": "kernels.evaluate(X, out='gram'); tp.load_kernels('gram')",
    "prediction": "kernels.posterior(X, [1.0, 0.0, 2.0], X + 0.5, noise=0.1)",
    "run": "run = operator.evaluate(X, error=error, lr=0.5, steps=3); run",
    "paths": "paths = sde.simulate(np.eye(2), T=0.2, dt=0.05, paths=64, record=True, c=1); paths",
    "coordinates": "classified.check(widths=(16, 32), steps=1, draws=4)",
    "recording": "tp.watch(net, X, error=error, optimizer=tp.SGD(), lr=0.5, steps=2, widths=(8, tp.inf))",
    "report": "run.report()",
}
PICTURES = {"run's figure": "run.plot()", "verdict's figure": "verdict.plot()", "paths' figure": "paths.plot()"}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The data of each cell's output, by MIME type; one kernel runs them all."""
    book = nbformat.v4.new_notebook()
    cells = {"": SETUP, **CELLS, **PICTURES}
    book.cells = [nbformat.v4.new_code_cell(code) for code in cells.values()]
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources=place).execute()
    return dict(zip(cells, (cell.outputs for cell in book.cells), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("name", [*CELLS, *PICTURES])
def test_a_cell_shows_one_thing_and_no_warning(shown, name):
    assert [o.output_type for o in shown[name]] == ["execute_result"]
    data = shown[name][0].data
    if name in PICTURES:
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG") and len(data["image/png"]) > 4000
    else:
        assert "<svg" in data["text/html"] and "<script" not in data["text/html"]
        assert data["text/plain"] and len(data["text/html"]) < 1_000_000


@pytest.mark.long
def test_pictures_are_seen(shown, tmp_path):
    cells = "".join(f"<section>{shown[name][0].data['text/html']}</section>" for name in CELLS)
    (tmp_path / "book.html").write_text(f"<!DOCTYPE html><meta charset='utf-8'>{cells}", encoding="utf-8")
    with Browser(1000, 900) as browser:
        browser.open(tmp_path / "book.html")
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        sizes = browser.run(
            "[...document.querySelectorAll('section')].map(s => s.querySelector('svg').getBoundingClientRect().width)"
        )
        told = [e["method"] for e in browser.events]
    assert len(sizes) == len(CELLS) and min(sizes) > 30
    assert not {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"} & set(told)
