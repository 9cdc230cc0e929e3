"""A limit of training as one HTML file, and as JSON for other programs to read."""

from __future__ import annotations

import json
from typing import Protocol

from tplimits.limit.kets import Step
from tplimits.limit.training.maximal import MaximalRecursion
from tplimits.limit.training.tangent import TangentOperator
from tplimits.program.program import Program
from tplimits.program.serial import to_json
from tplimits.report.html import TEMPLATES, cells
from tplimits.report.json_report import step_document, written_document
from tplimits.report.training import maximal, tangent_latex

#: what the files say they are
TRAINING = "tplimits training limit"


class Limit(Protocol):
    """What both regimes of training have."""

    @property
    def program(self) -> Program:
        """The network."""

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


def page(limit: Limit, of: MaximalRecursion | TangentOperator, version: str) -> str:
    """The page of a limit of training: formulas, text, assumptions, steps, LaTeX, BibTeX."""
    rows = maximal.formulas(of) if isinstance(of, MaximalRecursion) else tangent_latex.formulas(of)
    return TEMPLATES.get_template("training_limit.html").render(
        program=limit.program,
        opening=str(limit).splitlines()[0],
        equations=[cells(row) for row in rows],
        text=str(limit),
        assumptions=limit.assumptions,
        steps=limit.steps,
        latex=limit.latex(),
        citation=limit.citation(),
        version=version,
    )


def document(limit: Limit, of: MaximalRecursion | TangentOperator, version: str) -> str:
    """Program, optimizers, formulas as text and as LaTeX, assumptions and steps."""
    return written_document(
        {
            "format": TRAINING,
            "tplimits": version,
            "regime": "maximal" if isinstance(of, MaximalRecursion) else "tangent",
            "program": json.loads(to_json(limit.program)),
            "optimizers": {name: str(optimizer) for name, optimizer in of.optimizers.items()},
            "text": str(limit).splitlines(),
            "assumptions": list(limit.assumptions),
            "steps": [step_document(step) for step in limit.steps],
            "latex": limit.latex(),
            "citation": limit.citation(),
        }
    )
