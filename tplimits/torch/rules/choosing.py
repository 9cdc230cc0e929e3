"""Axes of entries that are put, added or taken where indices say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.torch.axes import Axes, dimension
from tplimits.torch.rules.registry import matched, part, refuse_wide, rule
from tplimits.torch.sizes import Wide

if TYPE_CHECKING:
    from tplimits.torch.graph import Node


@rule("select_scatter", "slice_scatter", "index_put", "copy", "fill")
def overwritten(axes: Axes, node: Node) -> None:
    """A tensor, some positions of which another one takes; widths are matched in both."""
    whole = node.needed("self")
    matched(axes, node, whole, set())
    source = node.ref("src" if "src" in node.arguments[0] else "value" if node.op == "fill" else "values")
    if source is None:
        return
    rank = len(axes.of(whole))
    if node.op in ("select_scatter", "slice_scatter"):
        dim = dimension(node["dim"] or 0, rank)
        if node.op == "slice_scatter":
            matched(axes, node, source, {dim})
            if isinstance(axes.of(whole)[dim], Wide):  # to a part of a width between two multiples of n
                if node["step"] != 1:
                    refuse_wide(axes, node, whole, dim, "it writes to some neurons")
                starts = [s or 0 for s in node.get("start")]
                starts = [s + n if s < 0 else s for s, n in zip(starts, (z[dim] for z in node.shapes), strict=True)]
                sizes = [z[dim] for z in axes.graph[source].shapes]
                part(axes, node, (node.number, 0, dim), (source, 0, dim), starts, sizes)
            return
        refuse_wide(axes, node, whole, dim, "it writes to some neurons")
        for d, to in enumerate(d for d in range(rank) if d != dim):
            axes.same(node, (node.number, 0, to), (source, 0, d))
        return
    if node.op == "index_put":
        indices = node.arguments[0]["indices"]
        for d, index in enumerate(indices):
            if index is not None:
                refuse_wide(axes, node, whole, d, "it writes to some neurons")
    axes.broadcast(node, source)


@rule("index_add", "scatter_add")
def added(axes: Axes, node: Node) -> None:
    """Sums over a finite dimension of what data send to each position."""
    whole, source = node.needed("self"), node.needed("source" if node.op == "index_add" else "src")
    dim = dimension(node["dim"], len(axes.of(whole)))
    refuse_wide(axes, node, whole, dim, "it adds to some neurons")
    matched(axes, node, whole, set())
    matched(axes, node, source, {dim})


@rule("embedding_bag", "_embedding_bag")
def bag(axes: Axes, node: Node) -> None:
    """Sums or means of rows of a table."""
    weight = node.needed("weight")
    refuse_wide(axes, node, weight, 0, "it looks up in a table of growing length")
    axes.same(node, (node.number, 0, 1), (weight, 0, 1))


@rule("cdist")
def distances(axes: Axes, node: Node) -> None:
    """Distances of rows of one tensor to rows of another: the last dimension is summed over."""
    x, y = node.needed("x1"), node.needed("x2")
    axes.same(node, (x, 0, len(axes.of(x)) - 1), (y, 0, len(axes.of(y)) - 1))
    rank = len(axes.of(node.number))
    for r in (x, y):
        for back in range(3, len(axes.of(r)) + 1):
            if axes.of(r)[-back] != 1:
                axes.same(node, (node.number, 0, rank - back), (r, 0, len(axes.of(r)) - back))
