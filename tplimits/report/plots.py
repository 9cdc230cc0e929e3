"""Pictures of results, drawn by Matplotlib, which is an extra and imported when a picture is asked for.

Figures are made without pyplot: no window opens, no global state changes, and a notebook shows what is returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy

from tplimits.check.rows import Row
from tplimits.check.verdict import Verdict
from tplimits.errors import EvaluationError
from tplimits.numeric.sde.paths import Paths

#: panels of one figure: the claims with the smallest p-values
_PANELS = 6
_COLUMNS = 3
#: paths that are drawn one by one
_TRAJECTORIES = 30
_DATA, _ACCEPTED, _REJECTED = "#1f4e79", "#2e7d32", "#c62828"


def matplotlib_figures() -> ModuleType:
    """Matplotlib with its figures; EvaluationError where it is not installed."""
    try:
        import matplotlib.figure
    except ImportError:
        raise EvaluationError(
            "a picture needs Matplotlib, which is not installed: pip install 'tplimits[plot]', or matplotlib alone."
        ) from None
    return matplotlib


def plot_verdict(verdict: Verdict, path: str | Path | None = None) -> Any:
    """Means with their standard errors against the first power of 1/n, the fit, its intercept and the claim.

    One panel a claim, at most six: those with the smallest p-values.  Returns the Figure; with a `path` it is
    saved there too, in the format of its suffix.
    """
    figures = matplotlib_figures().figure
    rows = sorted(verdict.rows, key=lambda row: (row.p, -abs(row.z)))[:_PANELS]
    columns = min(len(rows), _COLUMNS)
    lines = math.ceil(len(rows) / columns)
    figure = figures.Figure(figsize=(4.6 * columns, 3.6 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, row in zip(panels, rows, strict=False):
        _panel(panel, row)
    for panel in panels[len(rows) :]:
        panel.set_axis_off()
    figure.suptitle(_title(verdict, len(rows)), fontsize=10)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_paths(paths: Paths, a: int, b: int, path: str | Path | None = None) -> Any:
    """The correlation of two tokens: a few paths and quantiles in time, where recorded, and a histogram at the end."""
    figures = matplotlib_figures().figure
    recorded = paths.history is not None
    figure = figures.Figure(figsize=(8.4 if recorded else 4.6, 3.6), layout="constrained")
    panels = figure.subplots(1, 2 if recorded else 1, squeeze=False)[0]
    if recorded:
        rho = paths.correlation(a, b, recorded=True)
        panels[0].plot(paths.time, rho[:_TRAJECTORIES].T, color=_DATA, linewidth=0.5, alpha=0.3)
        for q, style in ((0.05, ":"), (0.5, "-"), (0.95, ":")):
            panels[0].plot(
                paths.time, numpy.nanquantile(rho, q, axis=0), color=_REJECTED, linestyle=style, label=f"{q:g}"
            )
        panels[0].set_xlabel("depth / width")
        panels[0].set_ylabel(f"ρ[{a}, {b}]")
        panels[0].legend(fontsize=7, title="quantile", title_fontsize=7)
    found = paths.correlation(a, b)
    panels[-1].hist(found[numpy.isfinite(found)], bins=60, range=(-1, 1), density=True, color=_DATA)
    panels[-1].set_xlabel(f"ρ[{a}, {b}] at depth / width = {paths.T:g}")
    figure.suptitle(f"{len(paths.V)} paths, {int(paths.stopped.sum())} stopped", fontsize=10)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _title(verdict: Verdict, shown: int) -> str:
    word = "accepted" if verdict.accepted else "rejected"
    some = f" ({shown} of {len(verdict.rows)} claims shown)" if shown < len(verdict.rows) else ""
    return f"{word} at level {verdict.level:g}{some}; bars are two standard errors"


def _panel(panel: Any, row: Row) -> None:
    moments, power = row.moments, float(row.series.powers[0])
    x = numpy.asarray(moments.widths, dtype=float) ** -power
    errors = numpy.sqrt(moments.noise)
    colour = _ACCEPTED if row.accepted else _REJECTED
    panel.axhline(row.claim.value, color=colour, linestyle="--", label=f"claim {row.claim.value:.6g}")
    grid = numpy.linspace(0, x.max() * 1.05, 100)
    panel.plot(grid, _fitted(row, grid, power), color=_DATA, linewidth=1, label=f"fit {row.series}")
    panel.errorbar(x, moments.means, 2 * errors, fmt="o", color=_DATA, markersize=4, capsize=2, label="finite width")
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


def _fitted(row: Row, x: Any, power: float) -> Any:
    """The fitted series at x = n^(−power)."""
    terms = (b * x ** (float(p) / power) for p, b in zip(row.series.powers, row.fit.slopes, strict=True))
    return row.intercept + sum(terms)
