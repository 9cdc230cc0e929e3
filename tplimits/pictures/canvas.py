"""Figures of Matplotlib, which is an extra and imported when a picture is asked for.

Figures are made without pyplot: no window opens, no global state changes, and a notebook shows what is returned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tplimits.errors import EvaluationError

DATA, ACCEPTED, REJECTED = "#1f4e79", "#2e7d32", "#c62828"


def new_figure(width: float, height: float) -> Any:
    """An empty Figure of a size in inches; EvaluationError where Matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EvaluationError(
            "a picture needs Matplotlib, which is not installed: pip install 'tplimits[plot]', or matplotlib alone."
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def saved(figure: Any, path: str | Path | None) -> Any:
    """The figure, written to a path if there is one, in the format of its suffix."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
