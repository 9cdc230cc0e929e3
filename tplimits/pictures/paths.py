"""The picture of paths: the correlation of two tokens in time and at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from tplimits.pictures.canvas import DATA, REJECTED, new_figure, saved

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
