"""Links between the documents lead to a page and, where they name one, to a heading of it."""

import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "docs"
DOCUMENTS = sorted(FOLDER.glob("*.md"), key=lambda path: path.name)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#([^)]*))?\)")


def anchors(text):
    """The anchors a Markdown page gets from its headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    for target, anchor in LINK.findall(path.read_text(encoding="utf-8")):
        found = (path.parent / target).resolve()
        assert found.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in anchors(found.read_text(encoding="utf-8")), f"{path.name} links to #{anchor}"
