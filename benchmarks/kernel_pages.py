"""Tables of docs/ that hold measurements of kernels, written from the files of benchmarks/results.

    python benchmarks/kernel_pages.py

A table is found by its first line and replaced as a whole, so that no digit of it is typed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import record
from kernel_rows import ROWS, Row

DOCS = Path(__file__).parent.parent / "docs"
COMPARED = (
    "network",
    "inputs",
    "tplimits",
    "Neural Tangents",
    "first: tplimits",
    "first: Neural Tangents",
    "MiB",
    "MiB there",
)
LARGE = ("network, images 32×32×3", "data", "a pair, one core", "core hours, 50000 images", "100 × 16 cores")


def line(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def put(text: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A page with the table that begins so as these rows."""
    lines = text.splitlines()
    start = lines.index(line(head))
    end = next((k for k in range(start, len(lines)) if not lines[k].startswith("|")), len(lines))
    table = [line(head), "|" + "---|" * len(head), *map(line, rows)]
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


def compared() -> list[list[str]]:
    """Both sides on each row: later calls in the best precision and mode, first calls, memory; the better one bold."""
    kept = json.loads((record.RESULTS / "kernels.json").read_text())
    found = {Row(**r["row"]): r for r in kept["rows"]}
    rows = []
    for row in (r for r in ROWS if r in found):
        own, peer = found[row]["own"], found[row]["peer"]
        again = [min(t for run in side.values() for t in run["again"]) for side in (own, peer)]
        first = [
            min(run["prepare"] + run["first"] for kind, run in side.items() if kind in kinds)
            for side, kinds in ((own, ("cold float64",)), (peer, ("jit float64",)))
        ]
        memory = [float(side[kind]["peak MiB"]) for side, kind in ((own, "warm float64"), (peer, "jit float64"))]
        cells = [c for pair in (again, first, memory) for c in _pair(*pair)]
        rows.append([row.name, str(row.inputs), *cells])
    return rows


def _pair(own: float, peer: float) -> tuple[str, str]:
    texts = _written(own), _written(peer)
    return (f"**{texts[0]}**", texts[1]) if own <= peer else (texts[0], f"**{texts[1]}**")


def _written(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def large() -> list[list[str]]:
    """What many images cost, reckoned from the cost of a pair."""
    kept: dict[str, Any] = json.loads((record.RESULTS / "large_kernels.json").read_text())
    rows: list[list[str]] = kept["table"]
    return rows


#: page, first line of the table, its rows
TABLES = (("comparison.md", COMPARED, compared), ("large-kernels.md", LARGE, large))


def pages() -> dict[Path, str]:
    """The pages as they ought to be."""
    return {DOCS / name: put((DOCS / name).read_text(), head, rows()) for name, head, rows in TABLES}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
