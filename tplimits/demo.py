"""The demonstration: python -m tplimits.demo FOLDER, or `make demo`.

A program in which the dot-ket matters is derived, printed, evaluated and checked; so is its wrong twin, the limit
one would get by taking W and its transpose for independent.  A page, LaTeX and a picture go to FOLDER.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import matplotlib.figure
import numpy
from matplotlib.ticker import NullLocator
from rich.console import Console
from rich.progress import track
from rich.syntax import Syntax

import tplimits as tp
from tplimits.pages import files
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.limit import WidthLimit

SOURCE = """\
@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    z = W.T @ tp.tanh(h)               # the transpose of the same W
    return tp.avg(x * z), tp.avg(z * z)
"""

#: widths of the picture, and networks at each
WIDTHS, NETWORKS = (16, 32, 64, 128, 256, 512, 1024), 60
_NETWORKS, _LIMIT, _WRONG = "#4878a8", "#1b7837", "#c0392b"
#: how the two returned scalars are written in the picture
_TITLES = {"return[0]": r"$\langle x|z\rangle$", "return[1]": r"$\langle z|z\rangle$"}


@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    z = W.T @ tp.tanh(h)
    return tp.avg(x * z), tp.avg(z * z)


def networks(widths: tuple[int, ...], count: int, console: Console) -> dict[str, numpy.ndarray]:
    """The returned scalars of real networks: one row a width, one column a network."""
    found: dict[str, list[list[float]]] = {label: [] for label in _TITLES}
    for n in track(widths, "networks at widths 16 to 1024", console=console, transient=True):
        runs = [tied.run(n=n, seed=seed) for seed in range(count)]
        for label, rows in found.items():
            rows.append([float(run[label]) for run in runs])
    return {label: numpy.array(rows) for label, rows in found.items()}


def picture(
    values: Mapping[str, numpy.ndarray], limit: Mapping[str, float], wrong: Mapping[str, float], widths: tuple[int, ...]
) -> matplotlib.figure.Figure:
    """Every network as a dot, by width, against the limit and against the limit without the dot-ket."""
    figure = matplotlib.figure.Figure(figsize=(10, 4.4), layout="constrained")
    spread = numpy.linspace(-0.16, 0.16, next(iter(values.values())).shape[1])
    places = numpy.log2(widths)
    for panel, (label, rows) in zip(figure.subplots(1, len(values)), values.items(), strict=True):
        for place, row in zip(places, rows, strict=True):
            panel.plot(place + spread, row, ".", color=_NETWORKS, markersize=3, alpha=0.55)
        low, middle, high = numpy.quantile(rows, [0.05, 0.5, 0.95], axis=1)
        panel.fill_between(places, low, high, color=_NETWORKS, alpha=0.18, linewidth=0, label="nine networks in ten")
        panel.plot(places, middle, color=_NETWORKS, linewidth=1.4, label="median network")
        panel.axhline(limit[label], color=_LIMIT, linewidth=1.8, label=f"limit {limit[label]:.4f}")
        panel.axhline(wrong[label], color=_WRONG, linewidth=1.4, linestyle="--", label=f"no dot-ket {wrong[label]:.4f}")
        panel.set_title(_TITLES[label])
        panel.set_xlabel("width n")
        panel.set_xticks(places, [str(n) for n in widths])
        panel.yaxis.set_minor_locator(NullLocator())
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(fontsize=8, loc="upper right")
    figure.suptitle(r"$z = W^{\mathsf{T}}\tanh(Wx)$: networks close in on the limit that keeps the dot-ket")
    return figure


def demonstrate(folder: Path, console: Console) -> bool:
    """Run it all; whether the limit was accepted and its twin rejected."""

    def heading(text: str) -> None:
        console.print()
        console.rule(f"[bold]{text}", align="left")

    def show(text: object) -> None:
        console.print(str(text), markup=False, highlight=False, soft_wrap=True)

    heading("A program: W meets its own transpose")
    console.print(Syntax(SOURCE, "python", background_color="default"))
    show(tied)

    heading("Its limit at infinite width")
    limit = tp.derive(tied)
    show(limit)

    heading("Where the dot-ket of z comes from")
    for step in limit.steps:
        if step.conclusion.startswith("|z⟩"):
            show(step)

    heading("Numbers")
    numbers = limit.evaluate()
    for label, number in numbers.items():
        show(f"{label} → {number}")

    heading("Is it true? The same program with real matrices")
    verdict = tp.check(limit)
    show(verdict)

    heading("The wrong twin: without the dot-ket")
    twin = {k: v.value for k, v in WidthLimit(tied, derive_width(tied, with_dots=False)).evaluate().items()}
    refuted = tp.check(limit, claims=twin)
    show(refuted)

    heading("Files")
    values = networks(WIDTHS, NETWORKS, console)
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / "tied.tex", limit.latex() + "\n")
    files.write(folder / "tied.html", limit.page())
    picture(values, {k: v.value for k, v in numbers.items()}, twin, WIDTHS).savefig(folder / "convergence.png", dpi=150)
    verdict.plot(folder / "verdict.png")
    for name, what in (
        ("tied.tex", "the limit in bra-ket notation"),
        ("tied.html", "everything on one page"),
        ("convergence.png", "networks of growing width"),
        ("verdict.png", "the fit behind the verdict"),
    ):
        show(f"{folder / name}: {what}")
    return verdict.accepted is True and refuted.accepted is False


def main(arguments: list[str]) -> int:
    """Exit status 0 when the limit was accepted and its twin rejected."""
    console, start = Console(), time.perf_counter()
    right = demonstrate(Path(arguments[0] if arguments else "demo"), console)
    console.print(f"\n{time.perf_counter() - start:.0f} seconds; next: .venv/bin/tplimits zoo", highlight=False)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
