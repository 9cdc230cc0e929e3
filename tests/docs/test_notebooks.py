"""The notebooks run as they stand, show what they promise, and say nothing else; pictures are seen in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import nbclient
import nbformat
import pytest
import run as notebooks

from tplimits.watch.page.browser import Browser

BOOKS = sorted(p.stem for p in notebooks.FOLDER.glob("*.ipynb"))
#: those that can be run where the package alone is installed
RUN = [name for name in BOOKS if name not in notebooks.NEEDS_TORCH]


def kept(name):
    return json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """What the cells of every notebook give now; one kernel runs them all, and warnings are errors."""
    book = nbformat.v4.new_notebook()
    cells = [(name, cell) for name in RUN for cell in kept(name)["cells"] if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]) for _, cell in cells]
    first = "import warnings; warnings.simplefilter('error')"
    book.cells = [nbformat.v4.new_code_cell(text) for text in (first, *code)]
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("notebooks"))}}
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources=place).execute()
    found: dict[str, list[tuple[dict, list]]] = {name: [] for name in RUN}
    for (name, cell), now in zip(cells, book.cells[1:], strict=True):
        found[name].append((cell, now.outputs))
    return found


def test_there_are_six_and_one_for_torch():
    assert len(RUN) >= 6 and "pytorch" in BOOKS


@pytest.mark.long
@pytest.mark.parametrize("name", RUN)
def test_what_is_kept_is_what_cells_show(executed, name):
    shown = 0
    for cell, outputs in executed[name]:
        assert [o.output_type for o in outputs] == [o["output_type"] for o in cell["outputs"]]
        for was, now in zip(cell["outputs"], outputs, strict=True):
            assert set(was.get("data", {})) <= set(now.get("data", {}))
            html, figure = "text/html" in now.get("data", {}), "image/png" in now.get("data", {})
            shown += html or figure
            assert not html or ("<svg" in now.data["text/html"] and "<script" not in now.data["text/html"])
    assert shown >= 1


@pytest.mark.long
def test_pictures_are_seen(executed, tmp_path):
    parts = [
        "".join(output.data["text/html"])
        for cells in executed.values()
        for _, outputs in cells
        for output in outputs
        if "text/html" in output.get("data", {})
    ]
    body = "".join(f"<section>{part}</section>" for part in parts)
    (tmp_path / "books.html").write_text(f"<!DOCTYPE html><meta charset='utf-8'>{body}", encoding="utf-8")
    with Browser(1000, 900) as browser:
        browser.open(tmp_path / "books.html")
        sizes = browser.run(
            "[...document.querySelectorAll('section')].map(s => s.querySelector('svg').getBoundingClientRect().width)"
        )
        told = {e["method"] for e in browser.events}
    assert len(sizes) == len(parts) and min(sizes) > 30  # nothing has to be unfolded for it
    assert not {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"} & told


def test_the_one_for_torch_reads_as_it_would_run():
    for cell in kept("pytorch")["cells"]:
        if cell["cell_type"] == "code":
            compile("".join(cell["source"]), "pytorch.ipynb", "exec")
    assert Path(notebooks.FOLDER / "pytorch.ipynb").stat().st_size < 1_000_000
