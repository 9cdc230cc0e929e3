"""Names that mean something to a writer: LaTeX, HTML, JSON, terminals, JavaScript."""

from __future__ import annotations

import html.parser
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tplimits as tp

#: pieces of names
PIECES = (
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&amp;", '"', "'", "\\", "\\end{align*}",
    "\\input{/etc/passwd}", "$x$", "%", "#", "^", "_", "{", "}", "~", "\u202e", "\u2066", "\0", "\n", "\r", "\x1b[31m",
    "\ud800", "🙂", "x" * 300, "-->", "]]>", "${x}", "{{x}}", "{% raw %}", "`", "|", "⟨", "⟩", "=", "[0]", "", " ",
    "__class__", "return", "lambda", "n", "e\u0301", "\ufeff", "ℵ", "a/b", "../x", "C:\\x", "%s", "%(x)s", "{0.__class__}",
)  # fmt: skip


class _Scripts(html.parser.HTMLParser):
    """Counts what a page would run, and its handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("img", "iframe", "object", "embed"):
            self.found.append(tag)
        self.found += [f"{tag} {k}" for k, _ in attributes if k.startswith("on")]
        if tag == "script":
            self.found.append(tag)


def names(rng: random.Random, place: Path) -> Callable[[], Any]:
    """A name through every writer."""
    name = "".join(rng.choice(PIECES) for _ in range(rng.choice((1, 1, 2, 3))))
    where = rng.randrange(5)

    def run() -> Any:
        program = _program(name, where)
        limit = tp.derive(program)
        page = limit.page()
        plain = tp.derive(_program("h", 0)).page()
        assert _scripts(page) == _scripts(plain), f"the name {name!r} is markup in the page"
        json.loads(limit.document())
        limit.report().save(place / "x.tex")
        tp.from_json(tp.to_json(program))
        for text in (str(program), limit.text(), limit.latex()):
            odd = [c for c in text if not c.isprintable() and c != "\n"]
            assert not odd, f"the name {name!r} puts {odd[:3]!r} into text"
        assert "\\input" not in limit.latex() and limit.latex().count("\\end{align*}") == 1
        return limit.evaluate(c=1.0) if where == 3 else limit.evaluate()

    return run


def _scripts(page: str) -> list[str]:
    parser = _Scripts()
    parser.feed(page)
    return parser.found


def _program(name: str, where: int) -> tp.Program:
    """A program in which the name stands somewhere."""

    def named(x):
        return tp.avg(tp.tanh(x).named(name) ** 2)

    def axis(x):
        return tp.avg(tp.sum(x, over=name)) if where == 1 else tp.avg(x**2)

    if where == 1:
        axis.__annotations__ = {"x": tp.Vector[name]}
        return tp.program(axis).bind(**{name: 2})
    if where == 2:
        axis.__annotations__ = {"x": tp.Vector}
        axis.__name__ = name
        return tp.program(axis)
    if where == 3:
        axis.__annotations__ = {"x": tp.Vector}
        return tp.program(axis).bind(**{name: 2.0})
    if where == 4:

        def product(W, x):
            return tp.avg((W @ x) ** 2)

        product.__annotations__ = {"W": tp.Matrix[name, "n"], "x": tp.Vector}
        return tp.program(product)
    named.__annotations__ = {"x": tp.Vector}
    return tp.program(named)
