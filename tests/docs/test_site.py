"""The documents as a site: every link leads somewhere, nothing is loaded, nothing is said on the console."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import sys
import types

import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.commands.catalogue import refusals
from tplimits.watch.page.browser import Browser

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def builder():
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs" / "site" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(builder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    builder.build(folder)
    return folder


@pytest.mark.long
def test_every_document_is_a_page_and_no_page_loads_from_elsewhere(site):
    documents = {path.stem for path in (ROOT / "docs").glob("*.md")}
    made = {path.stem for path in site.glob("*.html")} - documents - {"index", "gallery", "errors", "about"}
    assert {name.partition("-")[0] for name in made} == {"api", "notebook"} and len(made) == 11
    for path in site.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert len(text) < 1_000_000
        assert not re.search(
            r'(?:src|srcset)="(?!search\.js|images/|pictures/|data:image/png;base64,)|<link|@import|url\(', text
        ), path.name
        assert "$" not in re.sub(r"<(pre|code|script|math)\b.*?</\1>", "", text, flags=re.DOTALL), path.name


def test_a_link_that_leads_nowhere_is_an_error(builder, tmp_path):
    page = tmp_path / "odd.md"
    page.write_text("# Odd\n\n[there](nowhere.md)\n", encoding="utf-8")
    with pytest.raises(builder.SiteError, match=r"odd\.md links to nowhere\.md"):
        builder.written(builder.parser(), page, "odd")


@pytest.mark.long
def test_the_gallery_shows_the_zoo(site):
    text = (site / "gallery.html").read_text(encoding="utf-8")
    files = list((ROOT / "docs" / "gallery").glob("*.py"))
    assert text.count("<svg") == len(files) + len(zoo.NETWORKS) + len(zoo.PROGRAMS) and len(files) >= 20


@pytest.mark.long
def test_every_public_name_has_its_docstring_on_a_page(site):
    text = "".join(path.read_text(encoding="utf-8") for path in site.glob("api-*.html"))
    names = {n for n in dir(tp) if not n.startswith("_") and not isinstance(getattr(tp, n), types.ModuleType)}
    assert {n for n in names if f'id="tp-{n}"' not in text} == set()
    assert "Raises EvaluationError" in text and "class tp.KernelLimit" in text


@pytest.mark.long
def test_every_refusal_is_on_the_page_of_errors(site):
    text = (site / "errors.html").read_text(encoding="utf-8")
    assert text.count("<li>") - text.partition("<main>")[0].count("<li>") == len(refusals()) > 500


@pytest.mark.long
def test_a_browser_shows_pages_finds_words_and_says_nothing(site):
    with Browser(1280, 900) as browser:
        for name in ("index", "first-steps", "gallery", "errors", "theory", "notebook-tour", "api-regimes"):
            browser.open(site / f"{name}.html")
            for width in (400, 1400):
                browser.call(
                    "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
                )
                assert browser.run("document.documentElement.scrollWidth - innerWidth") <= 0, (name, width)
        browser.run("{const s = document.getElementById('search'); s.value = 'layernorm'; "
                    "s.dispatchEvent(new Event('input'));}")  # fmt: skip
        hits = json.loads(browser.run("JSON.stringify([...document.querySelectorAll('#found a')].map(a => a.href))"))
        told = {e["method"] for e in browser.events}
    assert any("first-steps.html#" in hit for hit in hits)
    assert not {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"} & told
