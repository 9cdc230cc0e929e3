"""Pictures of training: outputs against time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.pictures.canvas import new_figure, saved

#: curves that are drawn: the first inputs and outputs
_CURVES = 10
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
