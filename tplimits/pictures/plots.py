"""Figures of verdicts, of paths and of training, by Matplotlib: an extra, imported when a picture is asked for.

Figures are made without pyplot: no window opens, no global state changes, and a notebook shows what is returned.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError

DATA, ACCEPTED, REJECTED = "#1f4e79", "#2e7d32", "#c62828"
#: what is said of a claim
WORDS = {True: "accepted", None: "undecided", False: "rejected"}


def new_figure(width: float, height: float) -> Any:
    """An empty Figure of a size in inches; EvaluationError where Matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EvaluationError(
            "a picture needs Matplotlib, which is not installed: pip install 'tplimits[plot]', or matplotlib alone."
        ) from None
    figure: Any = Figure(figsize=(width, height), layout="constrained")
    # without pyplot nothing else tells a notebook how a figure looks
    figure._repr_png_ = functools.partial(_as_png, figure)
    return figure


def _as_png(figure: Any) -> bytes:
    """What a notebook shows."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100)
    return data.getvalue()


def saved(figure: Any, path: str | Path | None) -> Any:
    """The figure, written to a path if there is one, in the format of its suffix."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


#: paths that are drawn one by one
_TRAJECTORIES = 30


def plot_paths(paths: Any, a: int, b: int, path: str | Path | None = None) -> Any:
    """The correlation of two tokens: a few paths and quantiles in time, where recorded, and a histogram at the end."""
    recorded = paths.history is not None
    figure = new_figure(8.4 if recorded else 4.6, 3.6)
    panels = figure.subplots(1, 2 if recorded else 1, squeeze=False)[0]
    if recorded:
        rho = paths.correlation(a, b, recorded=True)
        panels[0].plot(paths.time, rho[:_TRAJECTORIES].T, color=DATA, linewidth=0.5, alpha=0.3)
        for q, style in ((0.05, ":"), (0.5, "-"), (0.95, ":")):
            panels[0].plot(
                paths.time, numpy.nanquantile(rho, q, axis=0), color=REJECTED, linestyle=style, label=f"{q:g}"
            )
        panels[0].set_xlabel("depth / width")
        panels[0].set_ylabel(f"ρ[{a}, {b}]")
        panels[0].legend(fontsize=7, title="quantile", title_fontsize=7)
    found = paths.correlation(a, b)
    panels[-1].hist(found[numpy.isfinite(found)], bins=60, range=(-1, 1), density=True, color=DATA)
    panels[-1].set_xlabel(f"ρ[{a}, {b}] at depth / width = {paths.T:g}")
    figure.suptitle(f"{len(paths.V)} paths, {int(paths.stopped.sum())} stopped", fontsize=10)
    return saved(figure, path)


#: curves that are drawn: the first inputs and outputs
_CURVES = 10
#: how dense the band of deviations is
_BAND = 0.25


def plot_training(
    f: NDArray[numpy.float64], stderr: NDArray[numpy.float64], title: str, path: str | Path | None = None
) -> Any:
    """Outputs in time with twice their standard errors as bands, ten at most; returns the Figure."""
    figure = new_figure(5.2, 3.6)
    panel = figure.subplots()
    flat, errors = f.reshape(len(f), -1), stderr.reshape(len(f), -1)
    time = numpy.arange(len(f))
    for curve in range(min(flat.shape[1], _CURVES)):
        (line,) = panel.plot(time, flat[:, curve], linewidth=1.2)
        low, high = flat[:, curve] - 2 * errors[:, curve], flat[:, curve] + 2 * errors[:, curve]
        panel.fill_between(time, low, high, color=line.get_color(), alpha=_BAND, linewidth=0)
    panel.set_xlabel("step")
    panel.set_ylabel("f")
    panel.set_title(title, fontsize=10)
    return saved(figure, path)


#: panels of one figure: the claims with the smallest p-values
_PANELS = 6
_COLUMNS = 3


class Judged(Protocol):
    """What is drawn of a verdict: its rows have a claim, moments at each width, and a fit."""

    @property
    def accepted(self) -> bool | None: ...

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
    word = WORDS[verdict.accepted]
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
    panel.set_title(
        f"{'REJECTED' if row.accepted is False else WORDS[row.accepted]}: {abs(row.z):.1f} standard errors", fontsize=10
    )
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


_BAND = 0.25


def plot_expansion(
    name: str,
    limit: float,
    points: tuple[Sequence[float], Sequence[float], Sequence[float]],
    parts: Mapping[str, float],
    path: str | Path | None = None,
) -> Any:
    """Means against 1/n with a band of their deviations, the limit dashed, and parts of the slope as bars.

    `points` are 1/n, means and deviations.  Returns the Figure; with a `path` it is saved there too.
    """
    figure = new_figure(9.2, 3.6)
    left, right = figure.subplots(1, 2)
    x, mean, deviation = (numpy.asarray(p, dtype=float) for p in points)
    left.plot(x, mean, color=DATA, label="L + b/n")
    left.fill_between(x, mean - deviation, mean + deviation, color=DATA, alpha=_BAND, linewidth=0, label="√(C/n)")
    left.axhline(limit, color=REJECTED, linestyle="--", linewidth=1, label=f"L = {limit:.6g}")
    left.set_xlim(left=0)
    left.set_xlabel("1/n")
    left.set_ylabel(name)
    left.legend(fontsize=7)
    right.barh(list(parts), list(parts.values()), color=DATA)
    right.invert_yaxis()
    right.axvline(0, color="black", linewidth=0.6)
    right.tick_params(axis="y", labelsize=7)
    right.set_xlabel("parts of b")
    return saved(figure, path)
