"""What commands show of a recording: a table, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy

from tplimits.terminal import say, show, table

if TYPE_CHECKING:
    from tplimits.watch.recording import Recording
    from tplimits.watch.run import Run

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
