"""A recording, its page, and one browser for all tests of the page."""

from __future__ import annotations

import pytest
from recorded_head import recorded

import tplimits as tp
from tplimits.watch.page.browser import Browser


@pytest.fixture(scope="session")
def recording() -> tp.Recording:
    return recorded()


@pytest.fixture(scope="session")
def browser():
    with Browser(1280, 1600) as found:
        yield found


@pytest.fixture(scope="session")
def path(recording, tmp_path_factory):
    """The page of the recording, of the size that a page has at most."""
    found = tmp_path_factory.mktemp("page") / "run.html"
    recording.page(found)
    return found


@pytest.fixture
def page(browser, path):
    """The browser with the page as it is when it is opened."""
    browser.events.clear()
    browser.open(path)
    browser.run("page.then(() => 1)")
    return browser
