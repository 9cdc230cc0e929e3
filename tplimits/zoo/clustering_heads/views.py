"""The panels of the paper's 4 × 4 figure, as views of a page: `rec.page("run.html", views=figure(task))`."""

from __future__ import annotations

from typing import Any

from tplimits.watch.page.views import Curves, Density, Levels, Matrix, Plane, Probes, Triangle, View
from tplimits.zoo.clustering_heads.task import SparseModularAddition


def figure(task: SparseModularAddition, probes: Any, held_out: bool = False) -> list[View]:
    """The sixteen panels, row by row, behind what colours the probes.

    Positions that do not matter are squares; probes with the same prefix have one colour, the mark is their label.
    held_out: the recording has inputs that are not trained on, whose curves stand beside the others.

    >>> task = SparseModularAddition()
    >>> len(figure(task, task.probes()))
    17
    """
    suffix = {"token": task.relevant}
    colours, texts = _prefixes(task, probes)
    curves = ("loss", "held-out loss"), ("accuracy", "held-out accuracy")
    return [
        Probes(colours=colours, marks=[(1, 0, 2)[label % 3] for label in task.labels(probes)], texts=texts),
        Plane("E", axis="d", colour="vocab", texts=True, title="tokens E"),
        Plane("P", axis="d", colour="token", squares=suffix, texts=True, title="positions P"),
        Plane("S", axis="d", colour="token", squares=suffix, texts=True, title="E + P"),
        Plane("Z", axis="d", colour="token", squares=suffix, arrows=("q",), texts=True, title="normalised, and q"),
        Matrix("s", "probe", "token", range=(0.0, 0.2), line=task.relevant, label=1, title="attention, label 1"),
        Plane("VZ", axis="d", colour="token", squares=suffix, texts=True, title="values V Z"),
        Plane("ξ", axis="d", colour="probe", title="sequence embeddings ξ"),
        Levels("ξ", "probability", title="probability over the plane of ξ"),
        Plane("ξ_bar", axis="d", colour="probe", title="normalised ξ"),
        Density("w", axis="d", rays=True, title="receptors w"),
        Density("u", axis="d", beside=("w",), title="assemblers u"),
        Plane("mlp", axis="d", colour="probe", beside=("ψ",), title="perceptron, and ψ"),
        Levels("ψ", table="E", title="softmax(E·) over the plane of ψ"),
        Triangle("probability", colour="probe", title="probabilities"),
        Curves(curves[0][: 1 + held_out], log=True, title="loss"),
        Curves(curves[1][: 1 + held_out], title="accuracy"),
    ]


def _prefixes(task: SparseModularAddition, probes: Any) -> tuple[list[float], list[str]]:
    """A number for the prefix of every probe, halves for other orders of the same tokens, and its text."""
    seen: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    colours, texts = [], []
    for row in probes:
        prefix = tuple(int(token) for token in row[: task.relevant])
        orders = seen.setdefault(tuple(sorted(prefix)), [])
        if prefix not in orders:
            orders.append(prefix)
        colours.append(list(seen).index(tuple(sorted(prefix))) + 0.5 * (orders.index(prefix) > 0))
        texts.append("".join(str(int(token)) for token in row))
    return colours, texts
