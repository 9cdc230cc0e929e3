"""The HTML page of a kernel limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.regimes.kernels.report import latex
from tplimits.regimes.kernels.report.steps import assumptions, steps
from tplimits.report.html import TEMPLATES, cells
from tplimits.version import VERSION

if TYPE_CHECKING:
    from tplimits.regimes.kernels.report.outline import Outline


def kernel_limit(outline: Outline, citation: str) -> str:
    """The page of a kernel limit: program, recursion, assumptions, steps, LaTeX, BibTeX."""
    return TEMPLATES.get_template("kernel_limit.html").render(
        program=outline.derivation.network,
        equations=[cells(row) for row in latex.formulas(outline)],
        indices=", ".join(f"{letter} over {axis}" for axis, letter in outline.letters.items()),
        assumptions=assumptions(outline),
        steps=steps(outline),
        latex=latex.kernel_limit(outline),
        citation=citation,
        version=VERSION,
    )
