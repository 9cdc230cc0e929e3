"""Pages of the site that are made from the package: messages, architectures, docstrings, notebooks."""

from __future__ import annotations

import html
import inspect
import json
import re
import runpy
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

import tplimits as tp
from tplimits import zoo
from tplimits.commands.catalogue import KINDS, refusals
from tplimits.report.written import program_graph

DOCS = Path(__file__).parents[1]
#: pages by name, in the order of the menu
TITLES = {"gallery": "Gallery", "errors": "What an error means"}
#: parts of the package whose public names share a page
PARTS = {
    "program": "API: programs and optimizers",
    "regimes": "API: regimes and limits",
    "watch": "API: training that is watched",
    "errors": "API: errors, checks and the rest",
}
_TO_A_PAGE = re.compile(r"\[([^]]*)\]\(\.\./(\w[\w-]*)\.md\)")
_FORMAT, _LEXER = HtmlFormatter(nowrap=True), PythonLexer()


@dataclass(frozen=True)
class Page:
    """One page: its name, title, body, and the anchors that links may name."""

    name: str
    title: str
    body: str
    anchors: frozenset[str]


def anchor(heading: str) -> str:
    """What GitHub makes of a heading, so that a link is right in both places.

    >>> anchor("2. Its `limit`, twice")
    '2-its-limit-twice'
    """
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def coloured(code: str) -> str:
    """Python as HTML."""
    return highlight(code, _LEXER, _FORMAT)


def catalogue() -> Page:
    """Every message of the package, by class."""
    parts = [
        "<h1>What an error means</h1><p>Every message says what was found, where, and what repairs it; … stands for "
        "names and numbers. <code>tplimits errors WORD</code> finds them on the command line.</p>"
    ]
    for kind, about in KINDS.items():
        rows = "".join(f"<li>{html.escape(r.text)}</li>" for r in refusals() if r.kind == kind)
        parts.append(f'<h2 id="{anchor(kind)}"><code>tp.{kind}</code></h2><p>{html.escape(about)}</p><ul>{rows}</ul>')
    return Page("errors", TITLES["errors"], "".join(parts), frozenset(map(anchor, KINDS)))


def architectures() -> list[Path]:
    """The files of the gallery."""
    return sorted((DOCS / "gallery").glob("*.py"))


def gallery() -> Page:
    """Architectures, each a file that runs: its picture, its source; then the zoo, that commands know by name."""
    parts, names = ["<h1>Gallery</h1><h2>Architectures</h2><p>Each is a file that runs: it prints the limit and writes "
                    "a page. Save one, change it, run it.</p>"], []  # fmt: skip
    for path in architectures():
        made = runpy.run_path(str(path))
        names.append(path.stem)
        shown, source = made["limit"].report(), path.read_text(encoding="utf-8")
        parts.append(
            f'<h3 id="{path.stem}">{html.escape(path.stem.replace("_", " "))}</h3><p>{html.escape(made["__doc__"])}</p>'
            f'<div class="wide">{shown.picture or shown.graph}</div>'
            f"<details><summary>{path.name}</summary><pre>{coloured(source)}</pre></details>"
        )
    for what, entries in (("Networks of the zoo", zoo.NETWORKS), ("Programs of the zoo", zoo.PROGRAMS)):
        parts.append(f"<h2>{what}</h2><p><code>tplimits derive NAME</code></p>")
        for entry in entries.values():
            names.append(f"zoo-{anchor(entry.name)}")
            told = (entry.summary, entry.limit, entry.symbols, entry.reference)
            about = "".join(f"<p>{html.escape(t)}</p>" for t in told)
            parts.append(
                f'<h3 id="{names[-1]}"><code>{html.escape(entry.name)}</code></h3>{about}'
                f'<div class="wide">{program_graph(entry.program)}</div>'
                f"<details><summary>program</summary><pre>{html.escape(str(entry.program))}</pre></details>"
            )
    return Page("gallery", TITLES["gallery"], "".join(parts), frozenset(names))


# -- docstrings -------------------------------------------------------------------------------


def api() -> list[Page]:
    """The public names with their signatures and docstrings, a page a part of the package."""
    of: dict[str, list[str]] = {part: [] for part in PARTS}
    for name in sorted(n for n in dir(tp) if not n.startswith("_")):
        value = getattr(tp, name)
        if not isinstance(value, types.ModuleType):
            of[_part(value)].append(name)
    pages = []
    for part, names in of.items():
        body = f"<h1>{PARTS[part]}</h1>" + "".join(_name(name, getattr(tp, name)) for name in names)
        pages.append(Page(f"api-{part}", PARTS[part], body, frozenset(f"tp-{n}" for n in names)))
    return pages


def _part(value: Any) -> str:
    module = getattr(value, "__module__", None) or type(value).__module__
    found = [*str(module).split("."), ""][1]
    return found if found in PARTS else "errors"


def _name(name: str, value: Any) -> str:
    kind = "class " if isinstance(value, type) else ""
    parts = [f'<h2 id="tp-{name}"><code>{kind}tp.{name}{html.escape(_signature(value))}</code></h2>{_doc(value)}']
    for member, held in _members(value) if isinstance(value, type) else ():
        parts.append(f"<h3><code>.{member}{html.escape(_signature(held))}</code></h3>{_doc(held)}")
    return "".join(parts)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class that say what they are."""
    for name, value in sorted(vars(kind).items()):
        held = value.fget if isinstance(value, property) else getattr(value, "func", value)
        if not name.startswith("_") and callable(held) and inspect.getdoc(held):
            yield name, held


def _signature(value: Any) -> str:
    try:
        bare = [p.replace(annotation=p.empty) for p in inspect.signature(value).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        return ""
    return str(inspect.Signature(bare)) if bare else ""


def _doc(value: Any) -> str:
    """A docstring: paragraphs, and examples in colours."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.getdoc(value) or ""):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"<pre>{coloured(paragraph)}</pre>")
        elif paragraph:
            shown = html.escape(paragraph).replace("$", "&#36;")
            parts.append("<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", shown) + "</p>")
    return "".join(parts)


# -- notebooks --------------------------------------------------------------------------------


def notebooks() -> list[Page]:
    """The notebooks as they were run: text, code, and what it showed."""
    return [_notebook(path) for path in sorted((DOCS / "notebooks").glob("*.ipynb"))]


def _notebook(path: Path) -> Page:
    book = json.loads(path.read_text(encoding="utf-8"))
    parts = []
    title = path.stem
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading, _, rest = source.partition("\n") if source.startswith("# ") else ("", "", source)
            title = heading.removeprefix("# ") or title
            parts.append(f"<h1>{html.escape(title)}</h1>" if heading else "")
            parts.append(f"<p>{_TO_A_PAGE.sub(_link, html.escape(rest))}</p>")
            continue
        parts.append(f"<pre>{coloured(source)}</pre>")
        parts += [f'<div class="wide">{_shown(output)}</div>' for output in cell["outputs"]]
    return Page(f"notebook-{path.stem}", f"Notebook: {title}", "".join(parts), frozenset())


def _link(match: re.Match[str]) -> str:
    return f'<a href="{match[2]}.html">{match[1]}</a>'


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return "".join(data["text/html"])
    if "image/png" in data:
        return f'<img alt="figure" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    return f"<pre>{html.escape(''.join(data.get('text/plain', output.get('text', ''))))}</pre>"
