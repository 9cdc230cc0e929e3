"""What a measurement leaves behind: a table to read, and a file that says on which machine and versions it was made."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tplimits.pages.files import write

RESULTS = Path(__file__).parent / "results"
#: packages that the numbers, or the time they take, depend on
PACKAGES = ("tplimits", "numpy", "scipy", "sympy", "mpmath", "numba")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their longest cell."""
    lines = (head, *rows)
    sizes = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(s) for c, s in zip(line, sizes, strict=True)).rstrip() for line in lines)


def verdict(within: bool) -> str:
    """The last cell of a row."""
    return "within" if within else "OUT OF BOUNDS"


def machine() -> dict[str, Any]:
    """Where it ran."""
    return {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()}


def versions() -> dict[str, str]:
    """What ran."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def save(path: Path, content: Mapping[str, Any], seconds: float) -> None:
    """Write results with the time they took, machine and versions: the whole file, or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {**content, "seconds": round(seconds, 1), "machine": machine(), "versions": versions()}
    write(path, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
