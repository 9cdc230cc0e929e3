"""One report of anything: text for a terminal, HTML for a notebook, a page, a LaTeX document, JSON.

A report is data: the classes that make one say what stands in it, and this module says how it looks.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import markupsafe

from tplimits import pages
from tplimits.errors import EvaluationError
from tplimits.pages import files
from tplimits.version import VERSION

#: texts longer than this are shortened in notebooks, where each stands in a cell
_CELL = 20_000
#: copies what a button names; the policy of a page admits this script and nothing else
SCRIPT = """document.addEventListener("click", event => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy"; }, 1500); };
  navigator.clipboard.writeText(text).then(done, () => {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
  });
});"""
_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
)


def harmless(value: Any) -> Any:
    """Text without control characters and marks that turn the direction of writing; HTML made here as it is."""
    if isinstance(value, markupsafe.Markup) or not isinstance(value, str):
        return value
    return "".join("\ufffd" if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in value)


@dataclass(frozen=True)
class Report:
    """What a person reads about a result, in every form.

    `answer` is one sentence, `numbers` are pairs of a name and a value with its error, `picture` is SVG made here,
    `graph` the program as SVG, `text` what a terminal prints, `latex` a fragment that needs amsmath, `document` JSON.
    `template` and `context` are those of the page between its head and its foot.
    """

    title: str
    answer: str
    text: str
    document: str
    numbers: tuple[tuple[str, str], ...] = ()
    picture: str = ""
    graph: str = ""
    program: str = ""
    steps: Sequence[Any] = ()
    latex: str = ""
    citation: str = ""
    seed: int | None = None
    template: str = "result.html"
    context: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def html(self) -> str:
        """One HTML file that loads nothing."""
        return pages.rendering.rendered(self.template, {**self._shown, **self.context})

    def _repr_html_(self) -> str:
        return pages.rendering.rendered("cell.html", self._shown)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self._repr_html_()}

    @property
    def _shown(self) -> dict[str, Any]:
        text = self.text if len(self.text) <= _CELL else self.text[:_CELL] + " …"
        plain = ("title", "answer", "numbers", "program", "steps", "latex", "citation", "seed")
        return {
            **{name: getattr(self, name) for name in plain},
            "picture": markupsafe.Markup(self.picture),
            "graph": markupsafe.Markup(self.graph),
            "text": text,
            "version": VERSION,
            "policy": POLICY,
            "script": markupsafe.Markup(SCRIPT),
        }

    def tex(self) -> str:
        """A document that pdflatex reads."""
        about = [*self.answer.splitlines(), f"made by tplimits {VERSION}"]
        formulas = self.latex or "\\begin{verbatim}\n" + _plain(self.text) + "\n\\end{verbatim}"
        references = [f"% {line}" for line in self.citation.splitlines()]
        head = ["\\documentclass{article}", "\\usepackage{amsmath}", *(f"% {harmless(line)}" for line in about)]
        return "\n".join([*head, "\\begin{document}", formulas, "\\end{document}", *references, ""])

    def save(self, path: str | PathLike[str]) -> None:
        """A file: .html, .tex or .json by its name, whole or not at all.

        Raises EvaluationError for other names, OSError where it cannot be written.
        """
        place = files.place_of("path", path)
        kinds = {".html": self.html, ".tex": self.tex, ".json": lambda: self.document}
        if place.suffix.lower() not in kinds:
            raise EvaluationError(f"save({str(path)!r}): a report is written as .html, .tex or .json.")
        files.write(place, kinds[place.suffix.lower()]())


class Reported:
    """A result that has a report, and is shown by it in notebooks."""

    @abstractmethod
    def report(self) -> Report:
        """The result for a terminal, a notebook, a page, a paper and other programs."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {**self.report()._repr_mimebundle_(), "text/plain": repr(self)}

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def document(kind: str, **parts: Any) -> str:
    """JSON that says what it is; numbers that are not finite are null.

    >>> json.loads(document("tplimits verdict", p=[0.5, math.inf]))["p"]
    [0.5, None]
    """
    return json.dumps({"format": kind, "tplimits": VERSION, **_finite(parts)}, ensure_ascii=False, indent=1) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def with_error(value: float, error: float) -> str:
    """A value with as many digits as its standard error leaves, and two of the error.

    >>> with_error(0.123456, 0.0021), with_error(2.0, 0.0), with_error(1.5, 1e-9)
    ('0.1235 ± 0.0021', '2', '1.5 ± 1.0e-09')
    """
    if not math.isfinite(error) or error <= 1e-11 * max(1.0, abs(value)):
        return f"{value:.10g}"
    if error < 1e-8 * abs(value):
        return f"{value:.10g} ± {error:.1e}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _plain(text: str) -> str:
    """For verbatim, where pdflatex without packages knows ASCII; lines of a page's width."""
    lines = [re.sub(r"[^ -~]", "?", line) for line in text.replace("\\end{verbatim}", "").splitlines()]
    return "\n".join(line[i : i + 65] for line in lines for i in range(0, max(1, len(line)), 65))
