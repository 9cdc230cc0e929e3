"""Buffers that each module has its own of, as it has weights: statistics of batch norms, and random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tplimits.torch.graph import Graph

#: the numbers of a batch norm that belong to a trained model
STATISTICS = ("running_mean", "running_var")


def buffers_of_a_module(graph: Graph) -> frozenset[int]:
    """The buffers without a width that each module has its own of: statistics of batch norms, and random numbers."""
    own = {
        node.needed(name)
        for node in graph
        for name in STATISTICS
        if "norm" in node.op and node.arguments[0] and node.ref(name) is not None
    }
    drawn = {
        node.number
        for node in graph
        if node.kind == "buffer" and node.number in graph.needed and _is_drawn([t[node.tensor] for t in graph.tensors])
    }
    return frozenset(own | drawn)


def _is_drawn(values: list[Any]) -> bool:
    """Whether numbers of several widths have nothing to do with one another."""
    first = values[0]
    if not first.is_floating_point() or any(v.shape != first.shape for v in values) or first.numel() == 0:
        return False
    if all(torch.allclose(v, first, rtol=1e-6, atol=0) for v in values[1:]):
        return False
    ratios = [(v / first)[first != 0] for v in values[1:]]
    return any(r.numel() > 1 and not torch.allclose(r, r[:1].expand_as(r), rtol=1e-4, atol=0) for r in ratios)
