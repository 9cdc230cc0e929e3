"""The axes of a whole graph: data apart from values, then the rules of every operation."""

from __future__ import annotations

from dataclasses import dataclass

from tplimits.torch.axes import Axes
from tplimits.torch.graph import Graph, refuse
from tplimits.torch.rules import RULES


@dataclass(frozen=True, eq=False)
class Analysed:
    """A graph whose axes are known; `data` are the nodes that no width and no parameter enters."""

    graph: Graph
    axes: Axes
    data: frozenset[int]


def analysed(graph: Graph) -> Analysed:
    """The axes of a graph, or a ProgramError that names the operation in the way."""
    axes = Axes(graph)
    data: set[int] = set()
    for node in graph:
        if node.kind in ("input", "buffer", "constant"):
            if not axes.wide(node.number):
                data.add(node.number)
            elif node.kind == "input":
                refuse(node, "the example has a dimension that grows with n", "the example is the same at all widths")
            continue
        if node.kind == "parameter":
            continue
        if not axes.wide(node.number) and all(r in data for r in node.refs):
            data.add(node.number)
            continue
        if node.op not in RULES:
            refuse(node, "this operation is not known to the import")
        RULES[node.op](axes, node)
    axes.settle()
    return Analysed(graph, axes, frozenset(data))
