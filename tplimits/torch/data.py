"""What a graph computes from data alone, evaluated by PyTorch itself: masks, positions, tokens, patches of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from tplimits.torch.graph import Node, Ref, refuse

if TYPE_CHECKING:
    from tplimits.torch.analysis import Analysed


def evaluated(found: Analysed, example: tuple[Any, ...], at: int = 0) -> dict[int, Any]:
    """The value of every data node on an example, at one width."""
    graph, inputs = found.graph, iter(example)
    known: dict[int, Any] = {}
    double = any(torch.is_tensor(x) and x.dtype == torch.float64 for x in example)
    for node in graph:
        if node.kind == "input":
            given = next(inputs)
            if node.number in found.data:
                known[node.number] = given
        elif node.number in found.data and node.kind in ("buffer", "constant"):
            own = graph.tensors[at][node.tensor]
            known[node.number] = own.double() if double and own.is_floating_point() else own
        elif node.number in found.data:
            known[node.number] = _result(node, known, at)
    return known


def _result(node: Node, known: Mapping[int, Any], at: int) -> Any:
    arguments = _read(node.arguments[at], known)
    if node.op == "getitem":
        return arguments["0"][arguments["1"]]
    try:
        with torch.no_grad():
            return node.target(**arguments)
    except Exception as error:  # what PyTorch says of its own operation
        refuse(node, f"its value on data cannot be computed: {error}")


def _read(value: Any, known: Mapping[int, Any]) -> Any:
    if isinstance(value, Ref):
        return known[value.node]
    if isinstance(value, Mapping):
        return {k: _read(v, known) for k, v in value.items()}
    if isinstance(value, list):
        return [_read(v, known) for v in value]
    return value


def from_inputs(found: Analysed) -> set[int]:
    """The data nodes that the inputs of the model enter."""
    known: set[int] = set()
    for node in found.graph:
        if node.kind == "input" or (node.number in found.data and any(r in known for r in node.refs)):
            known.add(node.number)
    return known & set(found.data)
