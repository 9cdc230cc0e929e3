"""The documents as a site: `python docs/site/build.py FOLDER` writes pages that need no server.

They come from the Markdown whose code the tests run, from the messages in the source, and from the zoo.
A link that leads nowhere, or a document that stands in no group, is an error.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import jinja2
import made
import markupsafe
from made import Page, anchor
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import BashLexer, PythonLexer

from tplimits.report.html import mathml
from tplimits.version import VERSION

ROOT = Path(__file__).parents[2]
#: pages in the order of the menu; README is the first
GROUPS = {
    "Start": ("first-steps", "tour", "what-it-does", "real-models", "pytorch", "comparison"),
    "How to": ("my-activation", "my-optimizer", "my-torch-model", "how-wide", "how-deep"),
    "Limits": (
        "finite-width",
        "kernels",
        "kernels-on-data",
        "large-kernels",
        "covariance-sde",
        "feature-learning",
        "operator-regime",
    ),
    "Training": ("parametrizations", "scaling", "watching", "watching-training", "clustering-heads"),
    "Reference": ("theory", "validity", "api", "errata"),
    "Changing it": (
        *("internals", "adding-an-activation", "adding-an-optimizer", "adding-a-closed-form"),
        *("adding-an-instruction", "adding-a-regime"),
    ),
}
_LEXERS = {"python": PythonLexer(), "sh": BashLexer(), "bash": BashLexer()}
_MATH = re.compile(r"\$\$(.+?)\$\$|\$(?=[^\s$])(.+?)(?<!\s)\$(?!\d)", re.DOTALL)
_FORMAT = HtmlFormatter(nowrap=True)


class SiteError(Exception):
    """A document that cannot be a page: where, and why."""


def parser() -> MarkdownIt:
    """Markdown with tables, coloured code, formulas between dollars, and an anchor on every heading."""
    md = MarkdownIt("commonmark", {"html": False, "highlight": _coloured}).enable("table")
    md.inline.ruler.before("escape", "math", _math)
    md.add_render_rule("math", lambda self, tokens, i, options, env: tokens[i].content)
    md.add_render_rule("heading_open", _heading)
    return md


def _coloured(code: str, language: str, _: str) -> str:
    lexer = _LEXERS.get(language)
    return highlight(code, lexer, _FORMAT) if lexer else html.escape(code)


def _math(state: Any, silent: bool) -> bool:
    """$…$ and $$…$$ as MathML; a dollar before a blank is a dollar."""
    found = _MATH.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        block, inline = found[1], found[2]
        made = str(mathml(block or inline))
        state.push("math", "", 0).content = made.replace('"inline"', '"block"', 1) if block else made
    state.pos = found.end()
    return True


def _heading(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
    return f'<{tokens[i].tag} id="{anchor(tokens[i + 1].content)}">'


def written(md: MarkdownIt, path: Path, name: str) -> Page:
    """A document as a page; links to documents become links to pages."""
    tokens = md.parse(path.read_text(encoding="utf-8"))
    headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    if not headings:
        raise SiteError(f"{path.name} has no heading: the first one is the title of its page.")
    for token in tokens:
        for child in token.children or ():
            for key in ("href", "src"):
                if key in child.attrs:
                    child.attrs[key] = _target(str(child.attrs[key]), path)
    body = md.renderer.render(tokens, md.options, {})
    return Page(name, re.sub("[`*]", "", headings[0]), body, frozenset(map(anchor, headings)))


def _target(link: str, path: Path) -> str:
    """A link of a document as one of the site: pages beside each other, pictures in their folders, the rest by name."""
    if re.match(r"[a-z]+:|#", link):
        return link
    place, hash_, heading = link.partition("#")
    found = (path.parent / place).resolve()
    if not found.exists():
        raise SiteError(f"{path.name} links to {link}, which is not there.")
    if found.suffix == ".md" and found.parent == ROOT / "docs":
        return f"{found.stem}.html{hash_}{heading}"
    if found.is_dir():
        return {"gallery": "gallery.html", "notebooks": "notebook-tour.html"}.get(found.name, "about.html#files")
    if found == ROOT / "README.md":
        return "index.html"
    if found.is_relative_to(ROOT / "docs"):
        return found.relative_to(ROOT / "docs").as_posix()
    return "about.html#files"  # of the source, not of the site


def about() -> Page:
    """Where the source is, which documents name and the site does not hold."""
    body = (
        '<h1 id="files">Files of the source</h1><p>Scripts and notes that documents name stand in the source of the '
        "package, under the same path: derivations, benchmarks, tests, CONTRIBUTING and CHANGELOG.</p>"
    )
    return Page("about", "Files of the source", body, frozenset({"files"}))


def pages() -> list[Page]:
    """All pages, links between them checked."""
    listed = {name for group in GROUPS.values() for name in group}
    there = {path.stem for path in (ROOT / "docs").glob("*.md")}
    if listed != there:
        raise SiteError(f"documents without a group, or groups without one: {', '.join(sorted(listed ^ there))}.")
    md = parser()
    found = [written(md, ROOT / "README.md", "index")]
    found += [written(md, ROOT / "docs" / f"{name}.md", name) for group in GROUPS.values() for name in group]
    found += [*made.notebooks(), made.gallery(), made.catalogue(), *made.api(), about()]
    anchors = {f"{page.name}.html": page.anchors for page in found}
    for page in found:
        for link in re.findall(r'href="([^":]*)"', page.body):
            place, _, heading = html.unescape(link).partition("#")
            of = anchors.get(place or f"{page.name}.html")
            if of is None or (heading and heading not in of):
                raise SiteError(f"{page.name}.html links to {link}, which is not there.")
    return found


def build(folder: Path) -> list[Page]:
    """Write the site into a folder, which is made or filled again."""
    found = pages()
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True).from_string(
        (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    )
    titles = {page.name: page.title for page in found}
    groups = {group: [(name, titles[name]) for name in names] for group, names in GROUPS.items()}
    groups["Start"] += [(p.name, p.title) for p in found if p.name.startswith("notebook-")]
    groups["Reference"] += [(p.name, p.title) for p in found if p.name in made.TITLES or p.name.startswith("api-")]
    index = [[p.name, p.title, h, text[:4000]] for p in found for h, text in _sections(p)]
    colours = HtmlFormatter().get_style_defs("pre")
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("images", "pictures"):
        shutil.copytree(ROOT / "docs" / kind, folder / kind, dirs_exist_ok=True)
    (folder / "search.js").write_text(f"const SECTIONS = {json.dumps(index, ensure_ascii=False)};\n", encoding="utf-8")
    for page in found:
        text = template.render(
            page=page,
            body=markupsafe.Markup(page.body),
            groups=groups,
            version=VERSION,
            colours=markupsafe.Markup(colours),
        )
        (folder / f"{page.name}.html").write_text(text, encoding="utf-8")
    return found


def _sections(page: Page) -> list[tuple[str, str]]:
    """The anchors of a page with the words under them, for the search."""
    parts = re.split(r'<h[1-6][^>]*id="([^"]*)"[^>]*>', page.body)
    plain = [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split()) for part in parts[::2]]
    return [(a, text) for a, text in zip(["", *parts[1::2]], plain, strict=True) if text]


if __name__ == "__main__":
    written_pages = build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site"))
    print(f"{len(written_pages)} pages")
