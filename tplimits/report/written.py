"""What a limit writes: LaTeX, BibTeX, one HTML file, JSON for other programs to read; BibTeX of what was used alone."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar

from tplimits import report
from tplimits.law.closed_forms.table import CLOSED_FORMS
from tplimits.pages.graph import layered
from tplimits.pages.report import Report, Reported
from tplimits.program.files.serial import to_json
from tplimits.report.json_report import step_document, written_document
from tplimits.report.latex_formulas import Formula, environment, fragment, rolled_rows, with_definitions
from tplimits.report.latex_names import apart
from tplimits.version import VERSION

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.program.nodes.program import Program

#: what the documents of training and of depth say they are
KERNELS, TRAINING, DEPTH = "tplimits kernel limit", "tplimits training limit", "tplimits covariance SDE"


class Written(Reported, ABC):
    """A limit that writes itself: a regime gives its formulas, and what its page and its document hold of its own.

    All documents have `format` and `program` at one place, so that a file can stand for the program it came from,
    whatever regime wrote it.
    """

    program: Program
    #: what the document says it is, and the template of the page
    _format: ClassVar[str]
    _template: ClassVar[str]

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule."""

    @abstractmethod
    def _formulas(self) -> Sequence[Formula]:
        """The limit line by line."""

    @abstractmethod
    def _rows_used(self) -> Iterable[str]:
        """Rows of the table of closed forms that stand in it."""

    @abstractmethod
    def _on_page(self) -> Mapping[str, Any]:
        """What the template takes besides steps, LaTeX and BibTeX, or another program than the user's."""

    @abstractmethod
    def _in_document(self) -> Mapping[str, Any]:
        """What the document holds besides these, or another program."""

    @property
    def _rows(self) -> list[Formula]:
        """The formulas, repeated layers once, functions defined."""
        program = self.program
        parts = [program, *program.parts]
        with apart(n for p in parts for n in (*p.constants, *p.widths, *p.all_axes, *(i.name for i in p))):
            return with_definitions(rolled_rows(self._formulas()))

    def latex(self) -> str:
        """A compilable fragment (amsmath)."""
        return fragment(self._rows)

    def _repr_latex_(self) -> str:
        # MathJax and KaTeX have no align of their own: they want dollars around an aligned environment
        return f"$$\n{environment(self._rows, 'aligned')}\n$$"

    def citation(self) -> str:
        """BibTeX of the theorems and closed forms this derivation used."""
        return bibtex([s.reference.citation for s in self.steps], self._rows_used())

    @property
    def _title(self) -> str:
        """The title of the page."""
        first = str(self).splitlines()[0].partition(":")[0]
        return first[:1].upper() + first[1:]

    @property
    def _answer(self) -> str:
        """One sentence."""
        return str(self).splitlines()[0]

    def _picture(self) -> str:
        """SVG of what the limit looks like; "" where that takes numbers that a reader has to choose."""
        return ""

    def report(self) -> Report:
        """The limit for a terminal, a notebook, a page, a paper and other programs."""
        context = dict(self._on_page())
        program = context.pop("program", self.program)
        shown = str(self)
        return Report(
            title=self._title,
            answer=self._answer,
            text=shown,
            document=self.document(),
            picture=self._picture(),
            graph=program_graph(program),
            program=str(program),
            steps=self.steps,
            latex=self.latex(),
            citation=self.citation(),
            template=self._template,
            context=context,
        )

    def page(self) -> str:
        """One HTML file: formulas, text, the program as a graph, steps, LaTeX, BibTeX."""
        return self.report().html()

    def document(self) -> str:
        """JSON for other programs to read; it can stand for the program."""
        return written_document(
            {
                "format": self._format,
                "tplimits": VERSION,
                "program": json.loads(to_json(self.program)),
                **self._in_document(),
                "steps": [step_document(step) for step in self.steps],
                "latex": self.latex(),
                "citation": self.citation(),
            }
        )


class Told(Written):
    """A limit whose page and document hold its text and its assumptions, and that uses no closed forms."""

    _template: ClassVar[str] = "limit.html"
    #: what stands under the first line of the page
    _note: ClassVar[str]

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What the limit rests on."""

    @abstractmethod
    def _asked(self) -> Mapping[str, Any]:
        """The fields of the regime, for the document."""

    def _rows_used(self) -> Iterable[str]:
        return ()

    def _on_page(self) -> Mapping[str, Any]:
        return {
            "note": self._note,
            "equations": [report.html.cells(row) for row in self._rows],
            "assumptions": self.assumptions,
        }

    def _in_document(self) -> Mapping[str, Any]:
        return {**self._asked(), "text": str(self).splitlines(), "assumptions": list(self.assumptions)}


def program_graph(program: Program) -> str:
    """What a program computes from what, as SVG."""
    return layered([s.name for s in program.instructions], {i: s.operands for i, s in enumerate(program.instructions)})


@cache
def entries() -> dict[str, str]:
    """All entries of `references.bib` by their keys; an empty line stands between two."""
    text = resources.files("tplimits.report").joinpath("references.bib").read_text(encoding="utf-8")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in text.strip().split("\n\n")}


def bibtex(references: Iterable[str], closed_forms: Iterable[str]) -> str:
    """The entries for some citation keys and rows of the table of closed forms, each once."""
    row = {r.name: r.citation for r in CLOSED_FORMS}
    keys = dict.fromkeys([*references, *(row[name] for name in closed_forms)])
    return "\n\n".join(entries()[k] for k in keys)
