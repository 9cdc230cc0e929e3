"""The picture of a verdict: means at finite widths, the fit, its intercept and the claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy

from tplimits.pictures.canvas import ACCEPTED, DATA, REJECTED, new_figure, saved

#: panels of one figure: the claims with the smallest p-values
_PANELS = 6
_COLUMNS = 3


class Judged(Protocol):
    """What is drawn of a verdict: its rows have a claim, moments at each width, and a fit."""

    @property
    def accepted(self) -> bool: ...

    @property
    def level(self) -> float: ...

    @property
    def rows(self) -> Sequence[Any]: ...


def plot_verdict(verdict: Judged, path: str | Path | None = None) -> Any:
    """Means with their standard errors against the first power of 1/n, the fit, its intercept and the claim.

    One panel a claim, at most six: those with the smallest p-values.  Returns the Figure; with a `path` it is
    saved there too, in the format of its suffix.
    """
    rows = sorted(verdict.rows, key=lambda row: (row.p, -abs(row.z)))[:_PANELS]
    columns = min(len(rows), _COLUMNS)
    lines = math.ceil(len(rows) / columns)
    figure = new_figure(4.6 * columns, 3.6 * lines)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, row in zip(panels, rows, strict=False):
        _panel(panel, row)
    for panel in panels[len(rows) :]:
        panel.set_axis_off()
    figure.suptitle(_title(verdict, len(rows)), fontsize=10)
    return saved(figure, path)


def _title(verdict: Judged, shown: int) -> str:
    word = "accepted" if verdict.accepted else "rejected"
    some = f" ({shown} of {len(verdict.rows)} claims shown)" if shown < len(verdict.rows) else ""
    return f"{word} at level {verdict.level:g}{some}; bars are two standard errors"


def _panel(panel: Any, row: Any) -> None:
    moments, power = row.moments, float(row.series.powers[0])
    x = numpy.asarray(moments.widths, dtype=float) ** -power
    errors = numpy.sqrt(moments.noise)
    colour = ACCEPTED if row.accepted else REJECTED
    panel.axhline(row.claim.value, color=colour, linestyle="--", label=f"claim {row.claim.value:.6g}")
    grid = numpy.linspace(0, x.max() * 1.05, 100)
    panel.plot(grid, _fitted(row, grid, power), color=DATA, linewidth=1, label=f"fit {row.series}")
    panel.errorbar(x, moments.means, 2 * errors, fmt="o", color=DATA, markersize=4, capsize=2, label="finite width")
    panel.errorbar(
        [0], [row.intercept], [2 * row.stderr], fmt="D", color=colour, markersize=5, capsize=3, label="intercept"
    )
    panel.set_xticks([0, *x], ["∞", *_labels(moments.widths)])
    panel.set_xlabel("width n (axis in 1/n)" if power == 1 else f"width n (axis in n^(−{row.series.powers[0]}))")
    panel.set_ylabel(row.claim.name)
    panel.set_title(f"{'accepted' if row.accepted else 'REJECTED'}: {abs(row.z):.1f} standard errors", fontsize=10)
    panel.legend(fontsize=7)


def _labels(widths: Sequence[int]) -> list[str]:
    """Tick labels; where widths crowd towards infinity only the first of them keeps its own."""
    labels, last = [], 0.0
    for n in widths:
        near = last and 1 / n > last - 0.05 / widths[0]
        labels.append("" if near else str(n))
        last = last if near else 1 / n
    return labels


def _fitted(row: Any, x: Any, power: float) -> Any:
    """The fitted series at x = n^(−power)."""
    terms = (b * x ** (float(p) / power) for p, b in zip(row.series.powers, row.fit.slopes, strict=True))
    return row.intercept + sum(terms)
