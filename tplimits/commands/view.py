"""tplimits view"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from tplimits.commands.output import writable
from tplimits.commands.viewing import show_recording, write_page
from tplimits.watch.recording import load_recording

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
