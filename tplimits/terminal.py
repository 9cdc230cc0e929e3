"""What the command line shows in a terminal, or writes to a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


class _Stage:
    """Where text for people goes: to the error stream while the output is a document."""

    aside = False


def aside(on: bool) -> None:
    """Whether text gives way to a document that a command writes to the output."""
    _Stage.aside = on


def show(*texts: str, style: str | None = None) -> None:
    """Text as it is; the first line coloured in a terminal when a style is given."""
    console = Console(markup=False, highlight=False, soft_wrap=True, stderr=_Stage.aside)
    for number, text in enumerate(texts):
        console.print(Text(text, style=style if style and not number else ""))


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table in a terminal, aligned columns in a pipe."""
    console = Console(markup=False, highlight=False, soft_wrap=True, stderr=_Stage.aside)
    if console.is_terminal:
        drawn = Table(*head, header_style="bold", show_lines=False)
        for row in rows:
            drawn.add_row(*(Text(cell) for cell in row))
        Console(markup=False, highlight=False, stderr=_Stage.aside).print(drawn)
        return
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        console.print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def working(what: str) -> AbstractContextManager[Any]:
    """A sign of life in a terminal."""
    return Console(stderr=True).status(what)


def say(text: str) -> None:
    """A line on the error stream."""
    Console(stderr=True, markup=False, highlight=False, soft_wrap=True).print(text)
