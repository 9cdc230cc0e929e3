"""Coordinate checks drawn: a panel for each value, sizes against the width, and counted powers as lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tplimits.errors import EvaluationError
from tplimits.pictures.plots import ACCEPTED, DATA, REJECTED, new_figure, saved

#: panels in a row, and in all
ACROSS, MOST = 4, 24


def plot_coordinates(widths: Sequence[int], rows: Sequence[Any], path: str | Path | None = None) -> Any:
    """Sizes with bands of two errors of the slope, alarms in red, the start in grey; alarms come first."""
    drawn: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        if row.kind != "entries" and all(s > 0 for s in row.sizes):
            drawn.setdefault((row.kind, row.name), []).append(row)
    if not drawn:
        raise EvaluationError("there is nothing to draw: nothing moves.")
    order = sorted(drawn, key=lambda k: not any(r.verdict in ("grows", "vanishes") for r in drawn[k]))[:MOST]
    across = min(ACROSS, len(order))
    down = math.ceil(len(order) / across)
    figure = new_figure(2.6 * across, 2.2 * down)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel, key in zip(panels, order, strict=False):
        _panel(panel, widths, drawn[key], key)
    for panel in panels[len(order) :]:
        panel.set_axis_off()
    return saved(figure, path)


def _panel(panel: Any, widths: Sequence[int], rows: Sequence[Any], key: tuple[str, str]) -> None:
    for row in rows:
        bad = row.verdict in ("grows", "vanishes")
        color = REJECTED if bad else "grey" if row.step == 0 else DATA
        panel.plot(widths, row.sizes, "o", markersize=3, color=color)
        middle = math.exp(sum(map(math.log, widths)) / len(widths))
        centre = math.exp(sum(map(math.log, row.sizes)) / len(row.sizes))
        reach = [
            [centre * (n / middle) ** (row.measured + 2 * row.error * side * (1 if n > middle else -1)) for n in widths]
            for side in (-1, 1)
        ]
        panel.fill_between(widths, *reach, color=color, alpha=0.15, linewidth=0)
        if row.step:
            line = [row.sizes[0] * (n / widths[0]) ** float(row.counted) for n in widths]
            panel.plot(widths, line, "-", linewidth=0.8, color=ACCEPTED)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log", base=2)
    kind, name = key
    alarm = any(row.verdict in ("grows", "vanishes") for row in rows)
    panel.set_title(f"Δ {name}" if kind == "image" else name, fontsize=7, color=REJECTED if alarm else "k")
    panel.tick_params(labelsize=6)
    panel.set_xticks(widths, [str(n) for n in widths])
    panel.minorticks_off()
