"""What the scripts that draw share: their options, the start of a chain, histograms, and a folder for the pictures."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt


class Pictures:
    """The options of a script, and its figures."""

    def __init__(self, text: str) -> None:
        parser = argparse.ArgumentParser(description=text.strip().splitlines()[0])
        parser.add_argument("--full", action="store_true", help="the sample sizes of the paper")
        parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo"), help="where the pictures go")
        parser.add_argument("--png", action="store_true", help="save pixels instead of SVG")
        options = parser.parse_args()
        self.full: bool = options.full
        self._folder: pathlib.Path = options.out
        self._ending = "png" if options.png else "svg"

    def figure(self, panels: int, title: str, rows: int = 1) -> tuple[Any, Any]:
        """Panels in rows, one after the other."""
        columns = -(-panels // rows)
        figure, axes = plt.subplots(rows, columns, figsize=(4.4 * columns, 3.8 * rows), layout="constrained")
        figure.suptitle(title)
        return figure, np.atleast_1d(axes).ravel()

    def save(self, figure: Any, name: str) -> None:
        """Write it to the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}.{self._ending}"
        figure.savefig(path)
        plt.close(figure)
        print(f"  picture: {path}")


def start(m: int, ρ: float, size: float = 1.0) -> np.ndarray:
    """The covariance of m tokens of equal variance and correlation."""
    return size * (np.full((m, m), ρ) + (1 - ρ) * np.eye(m))


def correlation(V: np.ndarray) -> np.ndarray:
    """ρ of the first two tokens."""
    return V[..., 0, 1] / np.sqrt(V[..., 0, 0] * V[..., 1, 1])


def histogram(axis: Any, networks: np.ndarray, paths: np.ndarray, label: str) -> None:
    """Densities of both, on the range of the networks."""
    edges = np.linspace(*np.quantile(networks, [0.002, 0.998]), 40 if len(networks) > 2000 else 20)
    axis.hist(networks, edges, density=True, alpha=0.45, label="networks")
    density, _ = np.histogram(paths, edges)
    axis.stairs(density / len(paths) / np.diff(edges), edges, color="C1", linewidth=1.6, label="SDE")
    axis.set_xlabel(label)
    axis.set_ylabel("density")
    axis.legend()
