"""Figures of expansions in 1/n: a mean with its deviation at growing widths, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from tplimits.pictures.plots import DATA, REJECTED, new_figure, saved

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
