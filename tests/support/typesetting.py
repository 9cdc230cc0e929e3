"""Fragments of LaTeX shown to pdflatex as a user pastes them: an article with amsmath, one fragment after the other."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

#: what may stick out of a line or of a page, in points
OVERFULL = 5
_HEAD = r"""\documentclass{article}
\usepackage{amsmath}
\hfuzz=%dpt \vfuzz=%dpt \hbadness=10000 \vbadness=10000
\begin{document}
"""
_COMPLAINT = re.compile(r"^(?:! .*|Overfull \\[hv]box.*)", re.MULTILINE)


def complaints(fragments: Mapping[str, str], folder: Path) -> dict[str, list[str]]:
    """What pdflatex says of each fragment: errors, and boxes that stick out; {} where all is well."""
    pages = (f"\\typeout{{<<{i}>>}}\n{text}\n\\clearpage\n" for i, text in enumerate(fragments.values()))
    source = _HEAD % (OVERFULL, OVERFULL) + "".join(pages) + "\\typeout{<<end>>}\n\\end{document}\n"
    log = typeset(source, folder)
    marks = re.split(r"^<<(\d+|end)>>$", log, flags=re.MULTILINE)
    found = {int(mark): text for mark, text in zip(marks[1::2], marks[2::2], strict=True) if mark != "end"}
    assert marks[-2] == "end" and len(found) == len(fragments), log[-2000:]
    said = {label: _COMPLAINT.findall(found[i]) for i, label in enumerate(fragments)}
    return {label: lines for label, lines in said.items() if lines}


def typeset(source: str, folder: Path) -> str:
    """The log of pdflatex on a document."""
    program = shutil.which("pdflatex")
    assert program, "tests set formulas with pdflatex: apt-get install texlive-latex-recommended, or make tex"
    (folder / "document.tex").write_text(source, encoding="utf-8")
    command = ["nice", "-n", "5", program, "-interaction=nonstopmode", "document.tex"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    return (folder / "document.log").read_text(encoding="latin-1")
