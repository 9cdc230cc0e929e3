"""Every file of the gallery runs as a script: it prints a limit and writes a page with a picture."""

from __future__ import annotations

import contextlib
import io
import runpy

import made
import pytest


def test_there_are_twenty():
    assert len(made.architectures()) >= 20


#: every fourth of them is run by `make test`
PATHS = [
    pytest.param(p, id=p.stem, marks=[pytest.mark.long] if i % 4 else []) for i, p in enumerate(made.architectures())
]


@pytest.mark.parametrize("path", PATHS)
def test_it_prints_its_limit_and_writes_its_page(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        found = runpy.run_path(str(path), run_name="__main__")
    page = (tmp_path / f"{path.stem}.html").read_text(encoding="utf-8")
    assert printed.getvalue().startswith(("kernels of net", "covariance SDE of net")) and len(found["__doc__"]) > 20
    assert "<svg" in page and len(page) < 3_000_000
