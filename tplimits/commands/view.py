"""tplimits view"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy
import typer
from typer.exceptions import TyperException

from tplimits.commands.output import writable
from tplimits.terminal import say, show, table
from tplimits.watch.recording import Recording, load_recording

if TYPE_CHECKING:
    from tplimits.watch.run import Run

_PAGE = "where the page goes; beside the recording if left out"


def view(
    recording: Annotated[Path, typer.Argument(help="a file written by `tplimits watch`, Recording.save or tp.watch")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help=_PAGE)] = None,
    page: Annotated[bool, typer.Option(help="write the page, and open it where this is a terminal")] = True,
) -> None:
    """Show a recording of networks in training: a table, and a page that plays it in a browser, offline."""
    found = load_recording(recording)
    target = html or recording.with_suffix(".html")
    if page:
        writable(target)
        if target.resolve() == recording.resolve():
            raise TyperException(f"{recording}: the page would take the place of the recording; give --html FILE.")
    show_recording(found)
    if page:
        write_page(found, target)
        if sys.stdout.isatty():
            typer.launch(str(target))


_CURVES = ("loss", "accuracy", "held-out loss", "held-out accuracy", "sharpness")


def show_recording(recording: Recording) -> None:
    """A row for each width: its curves at the first frame and at the last, as means over seeds."""
    named = [name for name in _CURVES if any(name in run.curves for run in recording.runs)]
    rows = []
    for width in recording.widths:
        runs = [run for run in recording.runs if run.width == width]
        frames = "-".join(dict.fromkeys(str(n) for n in (min(r.frames for r in runs), max(r.frames for r in runs))))
        curves = (_ends(runs, name) for name in named)
        rows.append(("limit" if runs[0].is_limit else f"{width:g}", str(len(runs)), frames, *curves))
    how = (f"{recording.program.name} in training", f"{recording.steps[-1]} steps")
    show(", ".join((*how, *filter(None, (recording.settings.get("parametrization"),)))))
    table(("width", "seeds", "frames", *named), rows)


def _ends(runs: list[Run], name: str) -> str:
    found = [run.curves[name] for run in runs if len(run.curves.get(name, ()))]
    if not found:
        return ""
    return " → ".join(f"{numpy.mean([curve[at] for curve in found]):.4g}" for at in (0, -1))


def write_page(recording: Recording, path: Path) -> None:
    """Write the page of a recording and say so."""
    recording.page(path)
    say(f"wrote {path}")
