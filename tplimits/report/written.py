"""A limit as one HTML file, and as JSON for other programs to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tplimits.program.files.serial import to_json
from tplimits.report.html import TEMPLATES, cells
from tplimits.report.json_report import step_document, written_document
from tplimits.version import VERSION

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.program.nodes.program import Program
    from tplimits.report.latex_formulas import Formula

#: what the files say they are
TRAINING, DEPTH = "tplimits training limit", "tplimits covariance SDE"


class Reported(Protocol):
    """What is read of a limit."""

    @property
    def program(self) -> Program:
        """What it is the limit of."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the limit rests on."""

    def latex(self) -> str:
        """An align* environment."""

    def citation(self) -> str:
        """BibTeX."""


def page(limit: Reported, title: str, note: str, formulas: Sequence[Formula]) -> str:
    """The page of a limit: formulas, text, assumptions, steps, LaTeX, BibTeX; `note` stands under its first line."""
    return TEMPLATES.get_template("limit.html").render(
        title=title,
        note=note,
        program=limit.program,
        opening=str(limit).splitlines()[0],
        equations=[cells(row) for row in formulas],
        text=str(limit),
        assumptions=limit.assumptions,
        steps=limit.steps,
        latex=limit.latex(),
        citation=limit.citation(),
        version=VERSION,
    )


def document(limit: Reported, kind: str, more: Mapping[str, Any]) -> str:
    """Program, what the regime adds, formulas as text and as LaTeX, assumptions and steps."""
    return written_document(
        {
            "format": kind,
            "tplimits": VERSION,
            **more,
            "program": json.loads(to_json(limit.program)),
            "text": str(limit).splitlines(),
            "assumptions": list(limit.assumptions),
            "steps": [step_document(step) for step in limit.steps],
            "latex": limit.latex(),
            "citation": limit.citation(),
        }
    )
