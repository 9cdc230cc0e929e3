"""The files that commands write: limits, numbers and pictures."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.exceptions import TyperException

from tplimits.errors import CheckError
from tplimits.pages import files
from tplimits.terminal import aside, say

if TYPE_CHECKING:
    from tplimits.pages.report import Reported
    from tplimits.regimes.protocol import Limit

#: the output of the command, for a pipe
OUTPUT = Path("-")
PICTURES = (".png", ".pdf", ".svg")


def writable(*paths: Path | None) -> None:
    """Refuse files that cannot be written, before any work."""
    given = [p for p in paths if p is not None]
    aside(OUTPUT in given)
    for path in given:
        if path != OUTPUT:
            files.check_writable(path)
    if len({p.resolve() for p in given}) < len(given):
        raise TyperException("two outputs go to the same file.")


def drawable(plot: Path | None) -> None:
    """Refuse pictures that cannot be drawn, before any work."""
    writable(plot)
    if plot is not None:
        if plot.suffix.lower() not in PICTURES:
            raise TyperException(f"--plot {plot}: pictures are written as {', '.join(PICTURES)}.")
        if importlib.util.find_spec("matplotlib") is None:
            raise CheckError("a picture needs Matplotlib, which is not installed: pip install 'tplimits[plot]'.")


def write(path: Path, content: str | bytes) -> None:
    """Write a file and say so; "-" is the output."""
    if path == OUTPUT:
        sys.stdout.write(content if isinstance(content, str) else content.decode())
        return
    sys.stdout.flush()  # the path may be /dev/stdout
    files.write(path, content)
    say(f"wrote {path}")


def write_report(found: Reported | Limit, latex: Path | None, html: Path | None, json: Path | None) -> None:
    """The report of a result in the files that were asked for; LaTeX as a fragment to paste, where it has formulas."""
    if not (latex or html or json):
        return
    report = found.report()
    if latex:
        write(latex, report.latex + "\n" if report.latex else report.tex())
    if html:
        write(html, report.html())
    if json:
        write(json, report.document)


def picture(verdict: Any, kind: str) -> bytes:
    """The plot of a verdict as the bytes of a file."""
    drawn = io.BytesIO()
    verdict.plot().savefig(drawn, format=kind, dpi=150)
    return drawn.getvalue()
